/**
 * The bound of an LRUCache that takes memory as it fills. With `max` it takes what all entries
 * would need when it is made: 2.5 MB and 8 ms of processor time for 100,000, of which a node has
 * several.
 */
export const upTo = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 }) as const;
