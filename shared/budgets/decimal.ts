/** Exact decimals of six places, as whole millionths. No amount is ever a float. */

const places = 6;
const one = 10n ** BigInt(places);

/** The millionths of a text that `DecimalText` allows, or that PostgreSQL gives of a `numeric`. */
export function millionthsOf(text: string): bigint {
  const [, sign, whole = '', fraction = ''] = /^(-?)([0-9]+)(?:\.([0-9]{1,6}))?$/.exec(text) ?? [];
  if (whole === '') throw new Error(`${text} is no decimal of ${places} places`);
  const millionths = BigInt(whole) * one + BigInt(fraction.padEnd(places, '0'));
  return sign === '-' ? -millionths : millionths;
}

/**
 * The millionths of a number of JSON that is not negative: of its digits as they are written, and
 * rounded up, so that what is too small to count is not free.
 */
export function millionthsUp(value: number): bigint {
  const [, whole = '', fraction = '', exponent = '0'] =
    /^([0-9]+)(?:\.([0-9]+))?(?:e([+-][0-9]+))?$/.exec(String(value)) ?? [];
  if (whole === '') throw new Error(`${value} is no amount`);
  const shift = Number(exponent) + places - fraction.length;
  const digits = BigInt(whole + fraction);
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (digits + divisor - 1n) / divisor;
}

/** As text with no more digits than it needs: `12.5`, `-3`. */
export function decimalText(millionths: bigint): string {
  const size = millionths < 0n ? -millionths : millionths;
  const fraction = String(size % one)
    .padStart(places, '0')
    .replace(/0+$/, '');
  const text = fraction === '' ? String(size / one) : `${size / one}.${fraction}`;
  return millionths < 0n ? `-${text}` : text;
}
