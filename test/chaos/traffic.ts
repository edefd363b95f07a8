/**
 * The load: valid and invalid creations, updates, patches, deletions and dry runs of Machines and Racks. The oracle
 * judges each response.
 */
import { resourcePath } from '../../src/kube/object.ts';
import type { Method } from '../support/plain-client.ts';
import type { Seeded } from '../support/seeded.ts';
import type { Client } from './client.ts';
import {
  LASTING_RACKS,
  LOAD_NAMESPACES,
  machine,
  MACHINES,
  MOST_UNITS,
  rack,
  RACKS,
  type Machine,
  type MachineSpec,
} from './kinds.ts';
import { judgeAnswer, type Expected, type Heard, type Judged } from './oracle.ts';
import { contradiction, createStock, storedSpec, type Entry, type Stock } from './stock.ts';
import type { Tally } from './tally.ts';

export interface Traffic {
  readonly stock: Stock;
  /** Creates a Machine that refers to each lasting Rack. */
  readonly prepare: () => Promise<void>;
  /** Sends one request of the mix, or a short sequence of dependent requests. */
  readonly next: () => Promise<void>;
  /** Creates a Machine with a note of this size in bytes, and deletes it again. */
  readonly heavy: (noteBytes: number) => Promise<void>;
  /** Reads the objects whose last write has an unknown result. */
  readonly resolveUnknown: () => Promise<void>;
}

export interface TrafficOptions {
  readonly client: Client;
  readonly seeded: Seeded;
  readonly tally: Tally;
  /** The labels that the policy may set now. */
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

export function createTraffic({ client, seeded, tally, stamps }: TrafficOptions): Traffic {
  const stock = createStock(seeded);
  let names = 0;
  let serials = 0;
  const freshSerial = () => `serial-${(serials += 1)}`;

  const ask = async ({
    method,
    path,
    body,
    expected,
    sent,
  }: Ask): Promise<{ heard: Heard; judged: Judged }> => {
    const [from, before] = [performance.now(), stamps()];
    const heard = await client.ask(method, path, body);
    const judged = judgeAnswer(expected, heard, sent, [...new Set([...before, ...stamps()])]);
    tally.record(
      `${method} ${path} ${JSON.stringify(body ?? '').slice(0, 400)}`,
      judged,
      from,
      performance.now(),
    );
    return { heard, judged };
  };

  /** Sends a request that replaces the object of this entry with `after`, and records the possible results. */
  const write = async (entry: Entry, after: MachineSpec | undefined, one: Ask): Promise<void> => {
    const before = entry.possible;
    entry.version += 1;
    const { heard, judged } = await ask(one);
    entry.version += 1;
    const { code } = heard;
    // A rejected write is not stored. The tally already counts a write that was wrongly accepted.
    if (code !== undefined && code < 300) entry.possible = [after];
    else if (judged.kind === 'not-asked' && one.expected.kind === 'accept')
      entry.possible = [...before, after];
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
  const remove = async (entry: Entry): Promise<void> => {
    await write(entry, undefined, { method: 'DELETE', path: pathOf(entry), expected: ACCEPT });
  };

  /**
   * A spec with one error, and the text that the rejection must contain. The holder of a serial stays reserved
   * meanwhile.
   */
  const badSpec = (base: MachineSpec): BadSpec => {
    switch (seeded.below(4)) {
      case 0:
        return { spec: { ...base, rack: `gone-${seeded.below(1_000)}` }, because: 'spec.rack' };
      case 1:
        return { spec: { ...base, units: MOST_UNITS + 1 + seeded.below(1_000) }, because: 'spec.units' };
      case 2: {
        const holder = stock.take((_entry, { serial }) => serial !== undefined);
        const serial = holder === undefined ? undefined : storedSpec(holder)?.serial;
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
    const made = await ask({
      method: 'POST',
      path: resourcePath(RACKS, {}),
      body: rack(name),
      expected: ACCEPT,
    });
    if (made.judged.kind !== 'right') return;
    const entry = await create({ ...goodSpec(), rack: name });
    if (storedSpec(entry) !== undefined) await remove(entry);
    const isFree = entry.possible.every((spec) => spec === undefined);
    stock.giveBack(entry);
    if (isFree) await ask({ method: 'DELETE', path: resourcePath(RACKS, { name }), expected: ACCEPT });
  };

  const deleteUsedRack = async (): Promise<void> => {
    const path = resourcePath(RACKS, { name: seeded.pick(LASTING_RACKS) });
    await ask({ method: 'DELETE', path, expected: refuse('still named by') });
  };

  const withStored = async (
    change: (entry: Entry, spec: MachineSpec) => Promise<void>,
    fits?: (entry: Entry) => boolean,
  ): Promise<void> => {
    const entry = stock.take(fits);
    const spec = entry === undefined ? undefined : storedSpec(entry);
    if (entry === undefined || spec === undefined) {
      stock.giveBack(await create(goodSpec()));
      return;
    }
    await change(entry, spec);
    stock.giveBack(entry);
  };

  const patchGood = (entry: Entry, spec: MachineSpec) => {
    const change: MachineSpec = seeded.pick([
      { units: seeded.below(MOST_UNITS) },
      { tier: seeded.pick(['gold', 'iron']) },
      ...(seeded.chance(0.3) ? [{ serial: freshSerial() }] : []),
    ]);
    const after = { ...spec, ...change };
    return write(entry, after, patching(entry, change, ACCEPT, after));
  };
  /** Removes a field that the policy sets again. */
  const patchAway = (entry: Entry, spec: MachineSpec) => {
    const after = { ...spec, tier: undefined };
    return write(entry, after, patching(entry, { tier: null }, ACCEPT, after));
  };
  const patchBad = async (entry: Entry, spec: MachineSpec) => {
    const rest = LASTING_RACKS.filter((name) => name !== spec.rack);
    const bad: BadSpec = seeded.chance(0.5)
      ? { spec: { rack: seeded.pick(rest) }, because: 'spec.rack' }
      : badSpec({});
    const change = Object.fromEntries(
      Object.entries(bad.spec).map(([field, value]: [string, unknown]) => [field, value ?? null]),
    );
    await write(entry, { ...spec, ...bad.spec }, patching(entry, change, refuse(bad.because)));
    if (bad.holder !== undefined) stock.giveBack(bad.holder);
  };
  /** Reads the whole object, changes it and sends it back, as `kubectl edit` does. */
  const update = async (entry: Entry, spec: MachineSpec) => {
    const found = await client.ask('GET', pathOf(entry));
    const metadata = found.object?.metadata;
    if (metadata === undefined || found.code !== 200) return;
    const isBad = seeded.chance(0.3);
    const after = isBad
      ? { ...spec, units: MOST_UNITS + 1 + seeded.below(1_000) }
      : { ...spec, units: seeded.below(MOST_UNITS) };
    const body = { ...machine(entry.namespace, entry.name, after), metadata };
    await write(entry, after, {
      method: 'PUT',
      path: pathOf(entry),
      body,
      expected: isBad ? refuse('spec.units') : ACCEPT,
      ...(isBad ? {} : { sent: after }),
    });
  };

  const settle = async (entry: Entry): Promise<void> => {
    const { code, object } = await client.ask('GET', pathOf(entry));
    if (code === 200 || code === 404) {
      const found = code === 200 ? (object as Machine) : undefined; // the path is that of a Machine
      const why = contradiction(entry, found);
      if (why !== undefined) tally.wrongStored(`${entry.namespace}/${entry.name}`, why);
      entry.possible = [found?.spec];
    }
    stock.giveBack(entry);
  };

  const mix: readonly (readonly [weight: number, act: () => Promise<void>])[] = [
    [
      16,
      async () => {
        stock.giveBack(await create(goodSpec()));
      },
    ],
    [14, createBad],
    [12, createDry],
    [6, rackCycle],
    [3, deleteUsedRack],
    [14, () => withStored(patchGood)],
    [4, () => withStored(patchAway)],
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
    next: async () => {
      const unknown = stock.takeUnknown();
      if (unknown !== undefined) {
        await settle(unknown);
        return;
      }
      if (stock.size() > POPULATION) {
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
    heavy: async (noteBytes) => {
      const entry = await create({ ...goodSpec(), note: 'x'.repeat(noteBytes) });
      if (storedSpec(entry) !== undefined) await remove(entry);
      stock.giveBack(entry);
    },
    resolveUnknown: async () => {
      for (const entry of stock.all()) {
        if (entry.isBusy || entry.possible.length < 2) continue;
        entry.isBusy = true;
        await settle(entry);
      }
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

const patching = (place: Place, change: object, expected: Expected, sent?: MachineSpec): Ask => ({
  method: 'PATCH',
  path: pathOf(place),
  body: { spec: change },
  expected,
  ...(sent === undefined ? {} : { sent }),
});
