/**
 * How much of what is wrong one answer tells. Apart from `errors.ts`, since the command line parses
 * JSON as nodes do, without a bus.
 */

/** How many problems one answer names. */
export const maxProblems = 50;
/** Longer paths are cut to the deepest place around the problem whose path fits. */
export const maxPathLength = 500;
