"use strict";
const study = { draw(data) {} };
