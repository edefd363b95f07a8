/** The Machines that should be stored. Only one request at a time changes each Machine. */
import type { MachineSpec } from './kinds.ts';
import type { Seeded } from '../support/seeded.ts';

export interface Entry {
  readonly namespace: string;
  readonly name: string;
  /** Undefined: there is no object. */
  spec: MachineSpec | undefined;
  /** Counts the writes, so that a reader can detect a write between two points in time. */
  version: number;
  isBusy: boolean;
  /** Other requests rely on it, so the load never deletes it. */
  readonly lasts: boolean;
}

export interface Stock {
  readonly add: (namespace: string, name: string, lasts?: boolean) => Entry;
  /** Takes an entry that is stored and not busy. It stays reserved until it is given back. */
  readonly take: (fits?: (entry: Entry) => boolean) => Entry | undefined;
  readonly giveBack: (entry: Entry) => void;
  readonly all: () => readonly Entry[];
}

export function createStock(seeded: Seeded): Stock {
  const entries = new Set<Entry>();
  return {
    add: (namespace, name, lasts = false) => {
      const entry: Entry = { namespace, name, spec: undefined, version: 0, isBusy: true, lasts };
      entries.add(entry);
      return entry;
    },
    take: (fits = () => true) => {
      const free = [...entries].filter((entry) => !entry.isBusy && entry.spec !== undefined && fits(entry));
      if (free.length === 0) return undefined;
      const entry = seeded.pick(free);
      entry.isBusy = true;
      return entry;
    },
    giveBack: (entry) => {
      entry.isBusy = false;
      if (entry.spec === undefined) entries.delete(entry);
    },
    all: () => [...entries],
  };
}
