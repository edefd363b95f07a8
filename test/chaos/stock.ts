/** The Machines that should be stored. Only one request at a time changes each Machine. */
import { afterDefaults, differenceOf } from './oracle.ts';
import type { Machine, MachineSpec } from './kinds.ts';
import type { Seeded } from '../support/seeded.ts';

export interface Entry {
  readonly namespace: string;
  readonly name: string;
  /**
   * The specs that may be stored; undefined means no object. After a write with an unknown result, there are several.
   */
  possible: readonly (MachineSpec | undefined)[];
  /** Counts the writes, so that a reader can detect a write between two points in time. */
  version: number;
  isBusy: boolean;
  /** Other requests rely on it, so the load never deletes it. */
  readonly lasts: boolean;
}

export interface Stock {
  readonly add: (namespace: string, name: string, lasts?: boolean) => Entry;
  /** Takes an entry that is stored for certain and not busy. It stays reserved until it is given back. */
  readonly take: (fits?: (entry: Entry, spec: MachineSpec) => boolean) => Entry | undefined;
  /** Takes an entry whose last write has an unknown result. */
  readonly takeUnknown: () => Entry | undefined;
  readonly giveBack: (entry: Entry) => void;
  readonly all: () => readonly Entry[];
  /** The number of entries that are stored for certain. */
  readonly size: () => number;
}

export function createStock(seeded: Seeded): Stock {
  const entries = new Set<Entry>();
  const take = (fits: (entry: Entry) => boolean): Entry | undefined => {
    const free = [...entries].filter((entry) => !entry.isBusy && fits(entry));
    if (free.length === 0) return undefined;
    const entry = seeded.pick(free);
    entry.isBusy = true;
    return entry;
  };
  return {
    add: (namespace, name, lasts = false) => {
      const entry: Entry = { namespace, name, possible: [undefined], version: 0, isBusy: true, lasts };
      entries.add(entry);
      return entry;
    },
    take: (fits = () => true) =>
      take((entry) => {
        const spec = storedSpec(entry);
        return spec !== undefined && fits(entry, spec);
      }),
    takeUnknown: () => take(({ possible }) => possible.length > 1),
    giveBack: (entry) => {
      entry.isBusy = false;
      if (entry.possible.length === 1 && entry.possible[0] === undefined) entries.delete(entry);
    },
    all: () => [...entries],
    size: () => [...entries].filter((entry) => storedSpec(entry) !== undefined).length,
  };
}

/** The spec that is stored for certain; undefined if there is no object, or its state is unknown. */
export function storedSpec({ possible }: Entry): MachineSpec | undefined {
  return possible.length === 1 ? possible[0] : undefined;
}

/** Describes why the found object contradicts the entry; undefined if it does not. */
export function contradiction(
  { possible }: Pick<Entry, 'possible'>,
  found: Machine | undefined,
): string | undefined {
  const differences = possible.map((spec) => {
    if (found === undefined) return spec === undefined ? undefined : 'it is gone';
    return spec === undefined ? 'it is there' : differenceOf(found.spec, afterDefaults(spec));
  });
  return differences.includes(undefined) ? undefined : differences.join(', or ');
}
