import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { emptyWorld } from '../../../test/support/admission/policy.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import { objectKey, type KubeObject, type ObjectRef } from '../../json/kube-object.ts';
import { compiled, DATACENTER, GROUP, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { createSharedSweep, createSweep, type SweepSources, type SweepOptions } from './sweep.ts';

const startedAt = new Date('2026-11-21T12:00:00Z');

interface Server extends KubeObject {
  readonly spec: Readonly<Record<string, unknown>>;
}

const NAMESPACES = { shop: { env: 'prod' }, lab: { env: 'test' } };

/** The stored objects, by resource and key. */
let stored: Record<string, Map<string, KubeObject>>;
let policies: CompiledPolicy[];
let listed: string[];
let reads: string[];

beforeEach(() => {
  stored = { servers: new Map(), datacenters: new Map(), racks: new Map() };
  policies = [compiled()];
  listed = [];
  reads = [];
});

function server(name: string, spec: Server['spec'], metadata: KubeObject['metadata'] = {}): Server {
  const own = { namespace: 'shop', name, uid: `uid-of-${name}`, ...metadata };
  return { apiVersion: `${GROUP}/v1`, kind: 'Server', metadata: own, spec };
}

function put(resource: string, ...objects: KubeObject[]): void {
  for (const object of objects) stored[resource]?.set(objectKey(object.metadata ?? {}), object);
}
const datacenter = (name: string): KubeObject => ({ metadata: { name } });

const EMPTY_WORLD: RequestWorld = { ...emptyWorld(), confirm: read, read };

const sweep = async (...given: Parameters<typeof sweepCluster>) => {
  const { violations, ...result } = await sweepCluster(...given);
  return { ...result, violations: violations.map(({ violation }) => violation) };
};

const sweepCluster = (change: Partial<SweepSources> = {}, interim = false, mapping = {}, signal = NEVER) =>
  createSweep({
    policies: () => policies,
    pages: ({ resource }) => pagesOf([...(stored[resource]?.values() ?? [])]),
    keys: ({ resource }) => {
      listed.push(resource);
      return Promise.resolve(new Set(stored[resource]?.keys()));
    },
    read,
    lists: () => true,
    namespaceLabels: () => Promise.resolve(new Map(Object.entries(NAMESPACES))),
    world: EMPTY_WORLD,
    pause: () => Promise.resolve(),
    now: () => startedAt,
    ...change,
  })({ interim, since: startedAt, namespaceMapping: mapping }, signal);

function read(ref: ObjectRef): Promise<KubeObject | undefined> {
  reads.push(`${ref.resource} ${objectKey(ref)}`);
  return Promise.resolve(stored[ref.resource]?.get(objectKey(ref)));
}

// eslint-disable-next-line @typescript-eslint/require-await -- the real pages come from the network
async function* pagesOf(...pages: (readonly KubeObject[])[]) {
  yield* pages;
}

/** The findings as `<object> <reason> <field> <target>`. */
const found = async (...asked: Parameters<typeof sweep>) =>
  (await sweep(...asked)).violations.map(({ object, reason, field, target }) =>
    [object.name, reason, field, target?.name].filter((part) => part !== undefined).join(' '),
  );

const GONE = { datacenter: 'gone' };
const RACKS = { apiGroup: GROUP, resource: 'racks' };
const rack = { name: 'rack', path: 'spec.rack', target: RACKS };
const disks = { ...DATACENTER, path: 'spec.disks[*].site' };
const match = { apiGroups: [GROUP], resources: ['servers'] };

test('a reference with a missing target is reported with object, field and target', async () => {
  put('servers', server('s1', GONE), server('s2', { datacenter: 'fra1' }), server('s3', {}));
  put('datacenters', datacenter('fra1'));
  const { apiVersion, kind, metadata } = server('s1', GONE);
  const object = { apiVersion, kind, ...metadata };
  const target = { group: GROUP, resource: 'datacenters', name: 'gone' };
  const reference = { reference: 'datacenter', field: 'spec.datacenter', reason: 'TargetMissing', target };
  expect(await sweep()).toEqual({
    startedAt,
    finishedAt: startedAt,
    interim: false,
    objectsScanned: 3,
    unreadable: [],
    violations: [{ policy: 'servers', object, ...reference }],
  });
  expect(listed).toEqual(['datacenters']);
  expect(reads).toEqual(['servers shop/s1', 'datacenters gone']);
  expect((await sweep({}, true)).interim).toBe(true);
});

test('a sweep is not clean while a policy cannot be evaluated', async () => {
  policies = [{ ...compiled(), undecidable: { message: 'no such kind', isTemporary: true } }];
  expect(await sweep()).toMatchObject({ objectsScanned: 0, unreadable: ['policy servers: no such kind'] });
});

const [DELETED, NOON, EARLIER] = [
  { deletionTimestamp: '2026-11-21T11:59:00Z' },
  { creationTimestamp: '2026-11-21T12:00:00Z' },
  { creationTimestamp: '2026-11-21T11:00:00Z' },
];
const missing = 's1 TargetMissing spec.datacenter gone';
const three = server('s1', { disks: [{ site: 'gone' }, { site: 'fra1' }, { site: 'gone' }] });
const both = [0, 2].map((at) => `s1 TargetMissing spec.disks[${at}].site gone`);
const prod = { match: { ...match, namespaceSelector: { matchLabels: { env: 'prod' } } } };
const inTwo = [server('s1', GONE), server('s2', GONE, { namespace: 'lab' })];
const tier = { validate: {}, defaults: [{ path: 'spec.tier', value: 'standard' }] };
const aged = [server('new', {}, NOON), server('filled', { tier: 'x' }, NOON), server('old', {}, EARLIER)];

test.each<[string, Partial<AdmissionPolicySpec>, readonly Server[], readonly string[]]>([
  ['every missing target is reported once', { validate: { references: [disks] } }, [three], both],
  ['a deletionTimestamp, which may be forged, hides nothing', {}, [server('s1', GONE, DELETED)], [missing]],
  ['namespaces that are not selected are left out', prod, inTwo, [missing]],
  ['a default that the restore left out is reported', tier, aged, ['new DefaultWouldChange spec.tier']],
])('only Datacenter fra1 exists: %s', async (_what, spec, servers, expected) => {
  policies = [compiled(spec)];
  put('servers', ...servers);
  put('datacenters', datacenter('fra1'));
  expect(await found()).toEqual(expected);
});

describe('a stale page causes no false report:', () => {
  const site = (...sites: readonly string[]) => ({ disks: sites.map((one) => ({ site: one })) });
  const moved = ['s1 TargetMissing spec.disks[0].site gone'];

  test.each<[string, Server['spec'], Server['spec'] | undefined, readonly string[]]>([
    ['of an object that is deleted by now', GONE, undefined, []],
    ['of an object that references another target by now', GONE, { datacenter: 'fra1' }, []],
    ['and a reference that has moved is reported where it is', site('fra1', 'gone'), site('gone'), moved],
  ])('%s', async (_what, seen, current, expected) => {
    policies = [compiled({ validate: { references: [DATACENTER, { ...disks, name: 'disks' }] } })];
    if (current !== undefined) put('servers', server('s1', current));
    put('datacenters', datacenter('fra1'));
    expect(await found({ pages: () => pagesOf([server('s1', seen)]) })).toEqual(expected);
  });

  test('of a target that is created between the two reads', async () => {
    put('servers', server('s1', { datacenter: 'late' }));
    const pause = () => {
      put('datacenters', datacenter('late'));
      return Promise.resolve();
    };
    expect(await found({ pause })).toEqual([]);
  });
});

const away = new Error('the API server is away');
const pages: SweepSources['pages'] = async function* ({ resource }) {
  yield* pagesOf([...(stored[resource]?.values() ?? [])]);
  if (resource === 'racks') throw away;
};
const keys = () => Promise.reject(away);

test.each<[string, Partial<SweepSources>, readonly string[], object]>([
  ['when its objects cannot be listed', { pages }, ['racks'], { violations: [{}, {}], objectsScanned: 2 }],
  ['when its targets cannot be listed', { keys }, ['racks', 'servers'], {}],
])(
  'a kind that cannot be read is reported, and the others are swept: %s',
  async (_when, change, kinds, expected) => {
    policies = [compiled({ match: { apiGroups: [GROUP], resources: ['racks', 'servers'] } })];
    put('servers', server('s1', GONE));
    put('racks', { ...server('r1', GONE), kind: 'Rack' });
    const result = await sweep(change);
    const unreadable = kinds.map((kind) => `${kind}.${GROUP}: the API server is away`);
    expect(result.unreadable.toSorted()).toEqual(unreadable);
    expect(result).toMatchObject(expected);
  },
);

describe('live reads', () => {
  /** Servers whose target does not exist. */
  const suspects = (count: number): void => {
    put('servers', ...Array.from({ length: count }, (_, n) => server(`s${n}`, { datacenter: `gone-${n}` })));
  };
  const timeout = () => Promise.reject(new Error('a timeout'));

  test('are made at the same time, and never more than sixteen', async () => {
    suspects(90);
    let [inFlight, most] = [0, 0];
    const { violations } = await sweep({
      read: async (ref) => {
        most = Math.max(most, (inFlight += 1));
        await setImmediate();
        inFlight -= 1;
        return await read(ref);
      },
    });
    expect(violations).toHaveLength(90);
    expect(most).toBe(16);
  });

  test.each([
    ['of one object leave out that object', /^s7$/, 89],
    ['of all objects leave out the rest of the kind', /^s\d/, 0],
  ])('that fail %s', async (_what, failing, count) => {
    suspects(90);
    const result = await sweep({ read: (ref) => (failing.test(ref.name) ? timeout() : read(ref)) });
    expect(result.violations).toHaveLength(count);
    expect(result.unreadable).toEqual([`servers.${GROUP}: a timeout`]);
  });

  test('that fail after the pause keep the violation, and the sweep is not complete', async () => {
    suspects(2);
    let isAway = false;
    const { violations, unreadable } = await sweep({
      pause: () => {
        isAway = true;
        return Promise.resolve();
      },
      read: (ref) => (isAway && ref.name === 'gone-1' ? timeout() : read(ref)),
    });
    expect(violations).toHaveLength(2);
    expect(unreadable).toEqual([`datacenters.${GROUP}: a timeout`]);
  });

  test('of many suspects are lists: the objects and the targets as they are after the pause', async () => {
    suspects(200);
    const pause = () => {
      put('datacenters', datacenter('gone-1'));
      put('servers', server('s2', { datacenter: 'gone-1' }));
      stored.servers?.delete('shop/s3');
      return Promise.resolve();
    };
    const listing: string[] = [];
    const pages: SweepSources['pages'] = ({ resource }) => {
      listing.push(resource);
      return pagesOf([...(stored[resource]?.values() ?? [])]);
    };
    const { violations, objectsScanned } = await sweep({ pause, pages });
    const names = violations.map(({ object }) => object.name);
    expect(names).toHaveLength(197);
    expect(names.filter((name) => ['s1', 's2', 's3'].includes(name))).toEqual([]);
    expect([reads, listing, listed]).toEqual([[], ['servers', 'servers'], ['datacenters', 'datacenters']]);
    expect(objectsScanned).toBe(200);
  });

  test.each([50, 200])(
    'that fail for %i targets outside the listed namespaces report no violation',
    async (count) => {
      suspects(count);
      const result = await sweep({
        lists: () => false,
        read: (ref) => (ref.resource === 'datacenters' ? timeout() : read(ref)),
      });
      expect(result.violations).toEqual([]);
      expect(result.unreadable).toEqual([`datacenters.${GROUP}: a timeout`]);
    },
  );

  test('of few suspects among many objects are not lists', async () => {
    put('datacenters', datacenter('fra1'));
    put('servers', ...Array.from({ length: 6_000 }, (_, n) => server(`ok${n}`, { datacenter: 'fra1' })));
    suspects(101);
    expect((await sweep()).violations).toHaveLength(101);
    expect(reads).toHaveLength(101);
    expect(listed).toEqual(['datacenters', 'datacenters']);
  });

  test('find more violations than a call can have arguments', async () => {
    policies = [compiled({ validate: { references: [disks] } })];
    const object = server('s1', {
      disks: Array.from({ length: 150_000 }, (_, n) => ({ site: `gone-${n}` })),
    });
    put('servers', object);
    expect((await sweep()).violations).toHaveLength(150_000);
  });

  test.each(['pages', 'keys'] as const)('that are lists and fail: %s', async (failing) => {
    suspects(200);
    let isAway = false;
    const change: Partial<SweepSources> = {
      pause: () => {
        isAway = true;
        return Promise.resolve();
      },
      pages: ({ resource }) => {
        if (isAway && failing === 'pages') throw away;
        return pagesOf([...(stored[resource]?.values() ?? [])]);
      },
      keys: ({ resource }) =>
        isAway && failing === 'keys' ? keys() : Promise.resolve(new Set(stored[resource]?.keys())),
    };
    const { violations, unreadable } = await sweep(change);
    expect(violations).toHaveLength(failing === 'pages' ? 0 : 200);
    const kind = failing === 'pages' ? 'servers' : 'datacenters';
    expect(unreadable).toEqual([`${kind}.${GROUP}: the API server is away`]);
  });
});

test('an aborted sweep fails instead of reporting every kind as unreadable', async () => {
  const stop = new AbortController();
  const pages = () => {
    stop.abort(new Error('another leader'));
    throw new Error('aborted');
  };
  await expect(sweep({ pages }, false, {}, stop.signal)).rejects.toThrow('another leader');
});

describe('checks other than references', () => {
  const schema = { properties: { spec: { properties: { units: { maximum: 4 } } } } };
  const unique = [{ name: 'serial', paths: ['spec.serial'] }];

  test('a value of two objects is reported for both, only while both have it', async () => {
    policies = [compiled({ validate: { unique } })];
    const holding = (name: string, serial: string) => server(name, { serial });
    put('servers', holding('s1', 'a'), holding('s2', 'a'), holding('s3', 'b'));
    expect(await found()).toEqual(['s1 Duplicate spec.serial', 's2 Duplicate spec.serial']);
    const changed = Promise.resolve(holding('s2', 'c'));
    expect(await found({ read: (ref) => (ref.name === 's2' ? changed : read(ref)) })).toEqual([]);
  });

  test('a value of 20,000 objects is reported for each of them without comparing all with all', async () => {
    policies = [compiled({ validate: { unique } })];
    put('servers', ...Array.from({ length: 20_000 }, (_, n) => server(`s${n}`, { serial: 'a' })));
    const began = performance.now();
    const { violations } = await sweep();
    expect(performance.now() - began).toBeLessThan(20_000); // all with all takes a minute
    expect(violations).toHaveLength(20_000);
    expect(violations.at(-1)?.message).toContain('also held by shop/s0 and 19998 more');
  });

  test('the sweep repeats only deferred checks', async () => {
    put('servers', server('s1', { units: 9 }), server('s2', { units: 1 }));
    policies = [compiled({ validate: { schema }, restore: { schema: 'Defer' } })];
    expect(await found()).toEqual(['s1 CheckFailed spec.units']);
    policies = [compiled({ validate: { schema } })];
    expect(await found()).toEqual([]);
  });

  test('the message of a long rule and the field of a long key are short, so that many fit into a report', async () => {
    const few = { name: 'few', expression: `object.spec.units < 3${' && true'.repeat(400)}` };
    const number = { additionalProperties: { type: 'integer' } };
    const schemaOf = { properties: { spec: { properties: { sizes: number } } } };
    const restore = { rules: 'Defer', schema: 'Defer' } as const;
    policies = [compiled({ validate: { rules: [few], schema: schemaOf }, restore })];
    put('servers', server('s1', { units: 9, sizes: { ['k'.repeat(5_000)]: 'big' } }));
    const { violations } = await sweep();
    const lengths = violations.map(({ field, message = '' }) => [field.length, message.length]);
    expect(lengths.toSorted(([a = 0], [b = 0]) => a - b)).toEqual([
      [expect.any(Number), 512],
      [256, expect.any(Number)],
    ]);
  });

  test('a rule that reads a target is checked too, because it may have been deferred with the reference', async () => {
    const rules = [
      { name: 'fits', expression: 'object.spec.units <= refs.datacenter.spec.capacity' },
      { name: 'few', expression: 'object.spec.units < 3' },
    ];
    const validate = { references: [DATACENTER], rules };
    const fra1: Server = { metadata: { name: 'fra1' }, spec: { capacity: 4 } };
    put('datacenters', fra1);
    const sized = (name: string, units: number, datacenter = 'fra1') => server(name, { units, datacenter });
    put('servers', sized('s1', 9), sized('s2', 4), sized('s3', 9, 'gone'));
    policies = [compiled({ validate })];
    expect(await found()).toEqual(['s1 CheckFailed ', 's3 TargetMissing spec.datacenter gone']);
    policies = [compiled({ validate, restore: { references: 'Enforce' } })];
    expect(await found()).toEqual(['s3 TargetMissing spec.datacenter gone']);
  });

  test.each([
    ['is in force exempts an object and frees its value', {}, []],
    ['has expired exempts no object', { expiresAt: '2026-11-21T11:00:00Z' }, ['s1', 's1', 's2']],
    ['is for one check exempts nothing else', { checks: ['unique'] }, ['s1']],
  ])('an exception that %s', async (_what, change, expected) => {
    const exceptions = [{ name: 'old', reason: 'a drill', names: ['s1'], ...change }];
    policies = [compiled({ validate: { references: [DATACENTER], unique }, exceptions })];
    put('servers', server('s1', { ...GONE, serial: 'a' }), server('s2', { serial: 'a' }));
    expect((await found()).map((place) => place.split(' ', 1)[0])).toEqual(expected);
  });

  test('objects are read in the version that the policy matches', async () => {
    const old = server('s1', GONE);
    const preferred = { ...server('s1', {}), apiVersion: `${GROUP}/v2` };
    const inVersion = ({ version }: { version?: string }) => (version === 'v1' ? old : preferred);
    const versioned = compiled({ match: { ...match, apiVersions: ['v1'] } });
    policies = [versioned, compiled({}, { name: 'any-version', generation: 1 })];
    const { violations } = await sweep({
      pages: (kind) => pagesOf([inVersion(kind)]),
      read: (ref) => (ref.resource === 'servers' ? Promise.resolve(inVersion(ref)) : read(ref)),
    });
    expect(violations).toMatchObject([{ policy: 'servers', reason: 'TargetMissing' }]);
  });

  test('A9: a copy that refers to its source namespace is reported', async () => {
    policies = [compiled({ validate: { references: [{ ...rack, namespacePath: 'spec.rackNamespace' }] } })];
    const namespace = 'prod-copy';
    put('racks', { metadata: { namespace: 'prod', name: 'r1' } }, { metadata: { namespace, name: 'r1' } });
    put(
      'servers',
      server('s1', { rack: 'r1', rackNamespace: 'prod' }, { namespace }),
      server('s2', { rack: 'r1', rackNamespace: namespace }, { namespace }),
    );
    expect(await found({}, false, { prod: namespace })).toEqual(['s1 CrossesNamespaceMapping spec.rack r1']);
    expect(await found()).toEqual([]);
  });
});

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 21, 12, 0, seconds));
const FINAL: SweepOptions = { interim: false, since: at(0), namespaceMapping: {} };

let now: Date;
let sweeps: number;
let shared: ReturnType<typeof createSharedSweep>;

/** Each sweep takes two seconds. */
beforeEach(() => {
  now = at(0);
  sweeps = 0;
  shared = createSharedSweep(
    ({ interim }) => {
      const startedAt = now;
      now = new Date(now.getTime() + 2_000);
      sweeps += 1;
      const found = { objectsScanned: sweeps, violations: [], unreadable: [] };
      return Promise.resolve({ startedAt, finishedAt: now, interim, ...found });
    },
    () => now,
  );
});

test('F16: waiting windows share a sweep that started late enough', async () => {
  now = at(10);
  const first = { kind: 'swept', result: { objectsScanned: 1 } };
  expect(await shared(FINAL, at(9), NEVER)).toMatchObject(first);
  expect(await shared({ ...FINAL, since: at(5) }, at(10), NEVER)).toMatchObject(first);
  const result = { objectsScanned: 1, interim: true };
  expect(await shared({ ...FINAL, interim: true }, at(8), NEVER)).toMatchObject({ result });
});

test.each<[string, Partial<SweepOptions>, number, boolean?]>([
  ['started too early', {}, 11],
  ['covered a shorter past', { since: at(-1) }, 9],
  ['did not know the namespace mapping', { namespaceMapping: { prod: 'copy' } }, 9],
  ['was an interim one', {}, 9, true],
])(
  'a sweep that %s is not shared; the next one waits, so that sweeps take a fifth of the time',
  async (_why, change, from, interim = false) => {
    now = at(10);
    await shared({ ...FINAL, interim }, at(9), NEVER);
    expect(await shared({ ...FINAL, ...change }, at(from), NEVER)).toEqual({ kind: 'later', at: at(20) });
    now = at(20);
    expect(await shared({ ...FINAL, ...change }, at(from), NEVER)).toMatchObject({ kind: 'swept' });
    expect(sweeps).toBe(2);
  },
);
