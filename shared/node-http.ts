/**
 * Node's `http`, without what only some of its exports need. An `import` of it reads all of them,
 * and with WebSocket comes a whole HTTP client that a start would wait for.
 */
export const http = process.getBuiltinModule('node:http');
