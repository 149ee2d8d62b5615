// Compresses packages at the fastest level, because they stay on this machine. Node loads this module first (local/deployment.py).

const zlib = require("node:zlib");

const { deflateRaw } = zlib;
zlib.deflateRaw = (buffer, options, done) => deflateRaw(buffer, { ...options, level: zlib.constants.Z_BEST_SPEED }, done);
