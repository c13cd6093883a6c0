
"use strict";
// Before anything is drawn, so that a dark page never flashes white.
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
