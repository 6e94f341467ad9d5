/** Sets by name, of which none is empty. */

export function addTo<T>(sets: Map<string, Set<T>>, name: string, item: T): void {
  const set = sets.get(name) ?? new Set();
  set.add(item);
  sets.set(name, set);
}

export function removeFrom<T>(sets: Map<string, Set<T>>, name: string, item: T): void {
  const set = sets.get(name);
  set?.delete(item);
  if (set?.size === 0) sets.delete(name);
}
