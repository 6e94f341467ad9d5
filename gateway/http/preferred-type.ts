/** Which form of an answer a client wants, by its `Accept` (RFC 9110, section 12.5.1). */

/** Whether it names the type, and wants it no less than JSON, which others get. */
export function prefers(accept: string | undefined, type: string): boolean {
  const wanted = accept?.toLowerCase();
  if (!wanted?.includes(type)) return false;
  const weights = new Map(wanted.split(',').map(weighed));
  const own = weights.get(type) ?? 0;
  const ofJson = ['application/json', 'application/*', '*/*']
    .map((range) => weights.get(range))
    .find((weight) => weight !== undefined);
  return own > 0 && own >= (ofJson ?? 0);
}

function weighed(part: string): [range: string, weight: number] {
  const [range = '', ...parameters] = part.split(';').map((each) => each.trim());
  const weight = parameters.find((each) => each.startsWith('q='))?.slice('q='.length);
  return [range, weight === undefined ? 1 : Number(weight)];
}
