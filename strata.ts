/**
 * Starts Strata, for whoever names this file: strata.mjs takes less time and memory for the same.
 */
import './strata.mjs';
