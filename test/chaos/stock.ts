/** What ought to be stored: the Machines that the load has written, each of them changed by one request at a time. */
import { afterDefaults, differenceOf } from './oracle.ts';
import type { Machine, MachineSpec } from './kinds.ts';
import type { Seeded } from '../support/seeded.ts';

export interface Entry {
  readonly namespace: string;
  readonly name: string;
  /** What may be stored; undefined: nothing. More than one when nobody said what became of the last write. */
  possible: readonly (MachineSpec | undefined)[];
  /** Counts the writes, so that whoever looked at two moments knows whether there was one in between. */
  version: number;
  isBusy: boolean;
  /** Others rely on it, so it is never deleted. */
  readonly lasts: boolean;
}

export interface Stock {
  readonly add: (namespace: string, name: string, lasts?: boolean) => Entry;
  /** One that is known to be stored, and is nobody's at the moment; it is the taker's until it is given back. */
  readonly take: (fits?: (entry: Entry, spec: MachineSpec) => boolean) => Entry | undefined;
  /** One of which nobody knows what became of it. */
  readonly takeUnknown: () => Entry | undefined;
  readonly giveBack: (entry: Entry) => void;
  readonly all: () => readonly Entry[];
  /** How many are stored for certain. */
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

/** What is stored for certain; undefined: nothing, or nobody knows. */
export function storedSpec({ possible }: Entry): MachineSpec | undefined {
  return possible.length === 1 ? possible[0] : undefined;
}

/** Says why what was found cannot be what this entry stands for; undefined when it can. */
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
