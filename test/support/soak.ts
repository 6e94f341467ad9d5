/**
 * What `npm test` leaves to `npm run test:soak`: the longest tests of a file, where no promise in docs
 * and no mutant names them, and what is the same over and over. SOAK=true has it in any run.
 */
import { describe, test } from '@jest/globals';

export const inSoak = process.env.SOAK === 'true';

const leave = (): void => {};
export const soakTest = inSoak ? test : leave;
export const soakDescribe = inSoak ? describe : leave;
