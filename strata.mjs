/**
 * Starts Strata: see start.ts. What Node compiles for that is kept beside the libraries, which the
 * next start reads; where that folder cannot be written, as in the image, everything is compiled
 * again. NODE_COMPILE_CACHE names another folder, and NODE_DISABLE_COMPILE_CACHE=1 keeps nothing.
 *
 * The one file that is JavaScript: for a first file in TypeScript, Node loads the compiler that
 * takes types out at every start, before anything can tell it what is kept.
 */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

enableCompileCache(join(import.meta.dirname, 'node_modules/.cache/strata'));
// Not by a static import, which would be compiled before this file runs.
await import('./start.ts');
