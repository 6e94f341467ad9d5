/** The package `@strata/client`, and its provider of OpenFeature. They have one Strata. */
import './client/strata.ts';
import './client/package.ts';
import './client/openfeature.ts';
