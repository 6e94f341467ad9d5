/**
 * fast-check for tests of properties. Each run of the suite tries the same values, so that none is
 * red for a value that another did not try; PROPERTY_SEED, a number, tries others, PROPERTY_TIMES
 * so many times as many, as `npm run test:soak` does.
 */
import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_122) });

export const times = Number(process.env.PROPERTY_TIMES ?? 1);
/** As many as find what there is to find at most times; the others are found by the soak. */
export const runs = (count: number) => ({ numRuns: count * times });

export default fc;
