/**
 * fast-check for tests of properties. Each run of the suite tries the same values, so that none is
 * red for a value that another did not try; PROPERTY_SEED, a number, tries others.
 */
import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_122) });

export default fc;
