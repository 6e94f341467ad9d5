// Jest reads TypeScript through Node's own type stripper, as production does.
const { createHash } = require('node:crypto');
const { stripTypeScriptTypes } = require('node:module');

module.exports = {
  process: (source) => ({ code: stripTypeScriptTypes(source) }),
  getCacheKey: (source, path) =>
    createHash('sha1').update(process.version).update(path).update(source).digest('hex'),
};
