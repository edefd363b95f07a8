/** The load: valid and invalid writes and dry runs of Machines and Racks. The oracle judges each response. */
import { resourcePath } from '../../src/kube/object.ts';
import type { Method, PlainClient } from '../support/plain-client.ts';
import type { Seeded } from '../support/seeded.ts';
import {
  LASTING_RACKS,
  LOAD_NAMESPACES,
  machine,
  MACHINES,
  MOST_UNITS,
  rack,
  RACKS,
  type MachineSpec,
} from './kinds.ts';
import { judgeAnswer, type Expected, type Judged, type Tally } from './oracle.ts';

interface TrafficOptions {
  readonly client: PlainClient;
  readonly seeded: Seeded;
  readonly tally: Tally;
  readonly stamps: () => readonly string[];
}

const ACCEPT: Expected = { kind: 'accept' };
const refuse = (because: string): Expected => ({ kind: 'refuse', because });
/** The target number of stored Machines: enough to pick from, and cheap to list. */
const POPULATION = 300;

interface Ask {
  readonly method: Method;
  readonly path: string;
  readonly body?: object;
  readonly expected: Expected;
  /** The expected Machine after the request; undefined if the response contains no Machine. */
  readonly sent?: MachineSpec;
}

interface BadSpec {
  readonly spec: MachineSpec;
  readonly because: string;
  readonly holder?: Entry;
}

export function createTraffic({ client, seeded, tally, stamps }: TrafficOptions) {
  const stock = createStock(seeded);
  let names = 0;
  let serials = 0;
  const freshSerial = () => `serial-${(serials += 1)}`;

  const ask = async ({ method, path, body, expected, sent }: Ask): Promise<Judged> => {
    const [from, before] = [performance.now(), stamps()];
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const { code, body: object } = await client.ask({ method, path, body, contentType });
    const heard = {
      code: code === 0 ? undefined : code,
      message: typeof object.message === 'string' ? object.message : '',
      object,
    };
    const judged = judgeAnswer(expected, heard, sent, [...new Set([...before, ...stamps()])]);
    const what = `${method} ${path} ${JSON.stringify(body ?? '').slice(0, 400)}`;
    tally.record(what, judged, from, performance.now());
    return judged;
  };

  const write = async (entry: Entry, after: MachineSpec | undefined, one: Ask): Promise<void> => {
    entry.version += 1;
    const { kind } = await ask(one);
    entry.version += 1;
    if (kind === 'right' && one.expected.kind === 'accept') entry.spec = after;
  };

  const goodSpec = (): MachineSpec => ({
    rack: seeded.pick(LASTING_RACKS),
    units: seeded.below(MOST_UNITS),
    ...(seeded.chance(0.5) ? { serial: freshSerial() } : {}),
    ...(seeded.chance(0.5) ? { tier: seeded.pick(['gold', 'iron']) } : {}),
  });

  const create = async (spec: MachineSpec, lasts = false): Promise<Entry> => {
    const entry = stock.add(seeded.pick(LOAD_NAMESPACES), `m-${(names += 1)}`, lasts);
    await write(entry, spec, creation(entry, spec, ACCEPT));
    return entry;
  };
  const createGood = async (): Promise<void> => {
    stock.giveBack(await create(goodSpec()));
  };
  const remove = async (entry: Entry): Promise<void> => {
    await write(entry, undefined, { method: 'DELETE', path: pathOf(entry), expected: ACCEPT });
  };

  /** With one error. `because` is in the rejection. The holder of a serial remains reserved. */
  const badSpec = (base: MachineSpec): BadSpec => {
    switch (seeded.below(4)) {
      case 0:
        return { spec: { ...base, rack: `gone-${seeded.below(1_000)}` }, because: 'spec.rack' };
      case 1:
        return { spec: { ...base, units: MOST_UNITS + 1 + seeded.below(1_000) }, because: 'spec.units' };
      case 2: {
        const holder = stock.take(({ spec }) => spec?.serial !== undefined);
        const serial = holder?.spec?.serial;
        if (holder !== undefined && serial !== undefined)
          return { spec: { ...base, serial }, because: 'spec.serial', holder };
        return { spec: { ...base, rack: undefined }, because: 'spec.rack' };
      }
      default:
        return { spec: { ...base, rack: undefined }, because: 'spec.rack' };
    }
  };

  const createBad = async (): Promise<void> => {
    const { spec, because, holder } = badSpec(goodSpec());
    const entry = stock.add(seeded.pick(LOAD_NAMESPACES), `bad-${(names += 1)}`);
    await write(entry, spec, creation(entry, spec, refuse(because), seeded.chance(0.3)));
    stock.giveBack(entry);
    if (holder !== undefined) stock.giveBack(holder);
  };

  const createDry = async (): Promise<void> => {
    const spec = goodSpec();
    const entry = { namespace: seeded.pick(LOAD_NAMESPACES), name: `dry-${(names += 1)}` };
    await ask(creation(entry, spec, ACCEPT, true));
  };

  /** Creates a Machine that refers to a new Rack immediately, and deletes the Rack right after the Machine. */
  const rackCycle = async (): Promise<void> => {
    const name = `rack-${(names += 1)}-of-load`;
    const made = {
      method: 'POST',
      path: resourcePath(RACKS, {}),
      body: rack(name),
      expected: ACCEPT,
    } as const;
    if ((await ask(made)).kind !== 'right') return;
    const entry = await create({ ...goodSpec(), rack: name });
    if (entry.spec !== undefined) await remove(entry);
    const isFree = entry.spec === undefined;
    stock.giveBack(entry);
    if (isFree) await ask({ method: 'DELETE', path: resourcePath(RACKS, { name }), expected: ACCEPT });
  };

  const deleteUsedRack = async (): Promise<void> => {
    const path = resourcePath(RACKS, { name: seeded.pick(LASTING_RACKS) });
    await ask({ method: 'DELETE', path, expected: refuse('still referenced by') });
  };

  const withStored = async (
    change: (entry: Entry, spec: MachineSpec) => Promise<void>,
    fits?: (entry: Entry) => boolean,
  ): Promise<void> => {
    const entry = stock.take(fits);
    if (entry?.spec === undefined) {
      await createGood();
      return;
    }
    await change(entry, entry.spec);
    stock.giveBack(entry);
  };

  const patchGood = (entry: Entry, spec: MachineSpec) => {
    const change: MachineSpec = seeded.pick([
      { units: seeded.below(MOST_UNITS) },
      { tier: seeded.chance(0.7) ? seeded.pick(['gold', 'iron']) : undefined },
      ...(seeded.chance(0.3) ? [{ serial: freshSerial() }] : []),
    ]);
    const after = { ...spec, ...change };
    return write(entry, after, patching(entry, change, ACCEPT, after));
  };
  const patchBad = async (entry: Entry, spec: MachineSpec) => {
    const rest = LASTING_RACKS.filter((name) => name !== spec.rack);
    const bad: BadSpec = seeded.chance(0.5)
      ? { spec: { rack: seeded.pick(rest) }, because: 'spec.rack' }
      : badSpec({});
    await write(entry, undefined, patching(entry, bad.spec, refuse(bad.because)));
    if (bad.holder !== undefined) stock.giveBack(bad.holder);
  };
  /** Reads the whole object, changes it and sends it back, as `kubectl edit` does. */
  const update = async (entry: Entry, spec: MachineSpec) => {
    const { code, body: found } = await client.ask({ method: 'GET', path: pathOf(entry) });
    if (code !== 200) return;
    const isBad = seeded.chance(0.3);
    const after = isBad
      ? { ...spec, units: MOST_UNITS + 1 + seeded.below(1_000) }
      : { ...spec, units: seeded.below(MOST_UNITS) };
    const body = { ...machine(entry.namespace, entry.name, after), metadata: found.metadata };
    await write(entry, after, {
      method: 'PUT',
      path: pathOf(entry),
      body,
      expected: isBad ? refuse('spec.units') : ACCEPT,
      ...(isBad ? {} : { sent: after }),
    });
  };

  const mix: readonly (readonly [weight: number, act: () => Promise<void>])[] = [
    [16, createGood],
    [14, createBad],
    [12, createDry],
    [6, rackCycle],
    [3, deleteUsedRack],
    [18, () => withStored(patchGood)],
    [7, () => withStored(patchBad)],
    [12, () => withStored(update)],
    [10, () => withStored(remove, ({ lasts }) => !lasts)],
  ];
  const weights = mix.reduce((sum, [weight]) => sum + weight, 0);

  return {
    stock,
    prepare: async () => {
      for (const name of LASTING_RACKS) stock.giveBack(await create({ ...goodSpec(), rack: name }, true));
    },
    /** Sends one request of the mix, or a short sequence of dependent requests. */
    next: async () => {
      if (stock.all().length > POPULATION) {
        await withStored(remove, ({ lasts }) => !lasts);
        return;
      }
      let drawn = seeded.next() * weights;
      for (const [weight, act] of mix) {
        drawn -= weight;
        if (drawn < 0) {
          await act();
          return;
        }
      }
    },
    /** Creates a Machine with a note of this size, and deletes it again. */
    heavy: async (noteBytes: number) => {
      const entry = await create({ ...goodSpec(), note: 'x'.repeat(noteBytes) });
      if (entry.spec !== undefined) await remove(entry);
      stock.giveBack(entry);
    },
  };
}

type Place = Pick<Entry, 'namespace' | 'name'>;

const pathOf = ({ namespace, name }: Place): string => resourcePath(MACHINES, { namespace, name });

const creation = (place: Place, spec: MachineSpec, expected: Expected, dryRun = false): Ask => ({
  method: 'POST',
  path: resourcePath(MACHINES, { namespace: place.namespace }) + (dryRun ? '?dryRun=All' : ''),
  body: machine(place.namespace, place.name, spec),
  expected,
  ...(expected.kind === 'accept' ? { sent: spec } : {}),
});

const patching = (place: Place, change: MachineSpec, expected: Expected, sent?: MachineSpec): Ask => ({
  method: 'PATCH',
  path: pathOf(place),
  // In a merge patch, null removes a field that the policy may set again.
  body: { spec: Object.fromEntries(Object.entries(change).map(([field, value]) => [field, value ?? null])) },
  expected,
  ...(sent === undefined ? {} : { sent }),
});

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

function createStock(seeded: Seeded) {
  const entries = new Set<Entry>();
  return {
    add: (namespace: string, name: string, lasts = false) => {
      const entry: Entry = { namespace, name, spec: undefined, version: 0, isBusy: true, lasts };
      entries.add(entry);
      return entry;
    },
    /** Takes an entry that is stored and not busy. It stays reserved until it is given back. */
    take: (fits: (entry: Entry) => boolean = () => true) => {
      const free = [...entries].filter((entry) => !entry.isBusy && entry.spec !== undefined && fits(entry));
      if (free.length === 0) return undefined;
      const entry = seeded.pick(free);
      entry.isBusy = true;
      return entry;
    },
    giveBack: (entry: Entry) => {
      entry.isBusy = false;
      if (entry.spec === undefined) entries.delete(entry);
    },
    all: (): readonly Entry[] => [...entries],
  };
}
