// Loaded ahead of a program (`node --import`): writes what it has loaded when it ends, as JSON, to
// file descriptor 3.
import { registerHooks } from 'node:module';
import { writeSync } from 'node:fs';

const packages = new Set();
registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    const inPackage = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(found.url);
    if (inPackage) packages.add(inPackage[1]);
    return found;
  },
});
process.once('exit', () => {
  const builtins = process.moduleLoadList.map((each) => each.split(' ').at(-1));
  writeSync(3, JSON.stringify({ packages: [...packages], builtins }));
});
