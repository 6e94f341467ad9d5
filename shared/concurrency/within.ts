import { StrataError } from '../errors.ts';

/**
 * The promise's outcome, or the error `timeout` where that takes longer than so many milliseconds.
 * The work behind the promise is not cancelled.
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  if (ms === Infinity) return promise;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new StrataError('timeout')), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
