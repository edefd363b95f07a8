/** The generated part of the bypass search: sequences of writes on a few names. All of it is plain JSON. */
import fc from 'fast-check';

import { HANDLED, HOLD, MARK, type UserName } from './kinds.ts';

export type Kind = 'widgets' | 'bins' | 'deployments' | 'pods';

export const VIAS = [
  'merge',
  'post',
  'json',
  'put',
  'apply',
  'strategic',
  'generate',
  'delete',
  'deletecollection',
  'status',
  'scale',
  'evict',
] as const;
export type Via = (typeof VIAS)[number];

export type Assignment = readonly [path: readonly string[], value: unknown];

/** Metadata that only the server, or only a backup tool, should write. The harmless ones come first. */
const FORGERIES = [
  'deletionTimestamp',
  'uid',
  'ownerReferences',
  'foreignOwner',
  'managedFields',
  'generation',
  'creationTimestamp',
  'resourceVersion',
  'restoreLabels',
  'preserved',
] as const;
export type Forgery = (typeof FORGERIES)[number];

export type Padding = 'none' | 'escapes' | 'text' | 'keys' | 'depth';

export interface Write {
  readonly via: Via;
  readonly kind: Kind;
  readonly name: string;
  readonly set: readonly Assignment[];
  readonly forged: readonly Forgery[];
  readonly padding: Padding;
  readonly as: UserName;
  readonly version: 'v1' | 'v1beta1';
  readonly dryRun: boolean;
  /** Whether a create or apply sends only `set`, not a complete valid object. */
  readonly bare: boolean;
}

export type Step = readonly [Write] | readonly [Write, Write];

/** fast-check shrinks to the first element, so harmless choices come first. */
const NAMES = ['a', 'b', 'c', 'exempt-d'] as const;

const rarely = <T>(usual: T, other: readonly T[], oneIn: number): fc.Arbitrary<T> =>
  fc.oneof(
    { withCrossShrink: true },
    { weight: oneIn - 1, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...other) },
  );

const set = (path: string, value: unknown): Assignment => [path.split('.'), value];

const fields = (values: Readonly<Record<string, readonly unknown[]>>): readonly Assignment[] =>
  Object.entries(values).flatMap(([path, all]) => all.map((value) => set(path, value)));

const FINALIZERS = fields({ 'metadata.finalizers': [[HOLD], null] });

const widgetFields = fc.constantFrom<Assignment>(
  ...fields({
    'metadata.labels.touched': ['yes'],
    'spec.units': [99, 5],
    'spec.bin': ['y', 'z', 'nowhere', null],
    'spec.spare': ['y', 'z', null],
    'spec.home': ['x', 'y', 'z', null],
    'spec.color': ['purple', null],
    'spec.owner': ['root', null],
    'spec.serial': ['s-1', 's-2', null],
    'spec.zone': ['east', 'west', null],
    'spec.level': [3, 2, null],
    'spec.note': ['secret', null],
    'spec.replicas': [2, 9],
    'spec.tier': [null],
    'metadata.labels': [null],
  }),
  [['metadata', 'labels', MARK], 'no'],
  [['metadata', 'labels', HANDLED], 'no'],
  ...fields({ 'metadata.labels.keep': ['yes', null] }),
  ...FINALIZERS,
  ...FINALIZERS,
);

const deploymentFields = fc.constantFrom<Assignment>(
  ...fields({
    'metadata.labels.touched': ['yes'],
    'metadata.labels.verdict': ['bad'],
    'metadata.labels': [null],
    'spec.replicas': [2, 9],
  }),
  ...FINALIZERS,
);

const binFields = fc.constantFrom<Assignment>(
  ...fields({ 'metadata.labels.touched': ['yes'], 'spec.capacity': [10, 2] }),
  ...FINALIZERS,
);

const common = {
  as: rarely<UserName>('alice', ['restorer', 'lookalike', 'mover'], 4),
  version: rarely<Write['version']>('v1', ['v1beta1'], 5),
  dryRun: rarely(false, [true], 15),
  bare: rarely(false, [true], 6),
};
const forged = fc.oneof(
  { withCrossShrink: true },
  { weight: 3, arbitrary: fc.constant<readonly Forgery[]>([]) },
  { weight: 1, arbitrary: fc.subarray([...FORGERIES], { maxLength: 2 }) },
);

const via = (weights: Partial<Record<Via, number>>): fc.Arbitrary<Via> =>
  fc.oneof(
    { withCrossShrink: true },
    ...VIAS.filter((each) => weights[each] !== undefined).map((each) => ({
      weight: weights[each] ?? 0,
      arbitrary: fc.constant(each),
    })),
  );

const widgetName = fc.oneof(
  { withCrossShrink: true },
  { weight: 2, arbitrary: fc.constantFrom('a', 'b') },
  { weight: 1, arbitrary: fc.constantFrom(...NAMES) },
);

const widget = fc.record<Write>({
  ...common,
  kind: fc.constant('widgets'),
  via: via({ merge: 5, post: 3, json: 3, put: 3, apply: 5, generate: 1, delete: 3, deletecollection: 1 }),
  name: widgetName,
  set: fc.array(widgetFields, { maxLength: 2 }),
  forged,
  padding: rarely<Padding>('none', ['text', 'keys', 'depth'], 300),
});

const statusFields = fc.constantFrom(set('status.phase', 'fine'), set('status.phase', 'broken'));
/** Subresources, even with fields that do not belong to them. */
const widgetSubresource = fc.record<Write>({
  ...common,
  kind: fc.constant('widgets'),
  via: via({ status: 2, scale: 1 }),
  name: widgetName,
  set: fc.array(
    fc.oneof(statusFields, fc.constantFrom(set('spec.replicas', 2), set('spec.replicas', 9)), widgetFields),
    { minLength: 1, maxLength: 3 },
  ),
  forged,
  padding: fc.constant('none'),
});

const deployment = fc.record<Write>({
  ...common,
  kind: fc.constant('deployments'),
  version: fc.constant('v1'),
  via: via({ merge: 1, post: 4, json: 1, put: 2, apply: 3, strategic: 3, generate: 1, status: 1, scale: 1 }),
  name: fc.constantFrom('d', 'e'),
  set: fc.array(deploymentFields, { maxLength: 2 }),
  forged,
  padding: rarely<Padding>('none', ['escapes'], 25),
});

const bin = fc.record<Write>({
  ...common,
  kind: fc.constant('bins'),
  as: fc.constant('alice'),
  via: via({ merge: 2, post: 3, apply: 1, delete: 5, deletecollection: 1 }),
  name: fc.constantFrom('x', 'y', 'z'),
  set: fc.array(binFields, { maxLength: 2 }),
  forged: fc.constant([]),
  padding: fc.constant('none'),
});

const pod = fc.record<Write>({
  ...common,
  kind: fc.constant('pods'),
  version: fc.constant('v1'),
  via: via({ post: 1, delete: 1, deletecollection: 1, evict: 3 }),
  name: fc.constantFrom('free', 'keep'),
  set: fc.constant([]),
  forged,
  padding: fc.constant('none'),
  bare: fc.constant(false),
});

const write = fc.oneof(
  { weight: 25, arbitrary: widget },
  { weight: 3, arbitrary: widgetSubresource },
  { weight: 4, arbitrary: bin },
  { weight: 4, arbitrary: deployment },
  { weight: 1, arbitrary: pod },
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { withCrossShrink: true },
  { weight: 12, arbitrary: fc.tuple(write) },
  { weight: 1, arbitrary: fc.tuple(write, write) },
);

/**
 * Steps after which a lagging replica may admit what another one refuses: changes of Bins race with references to them, which
 * is a documented limitation, and the search cannot ask each replica what it has seen.
 */
const isAboutBins = (one: Step): boolean => one.some(({ kind }) => kind === 'bins');

export const pathsOf = (most: number, replicas = 1): fc.Arbitrary<readonly Step[]> =>
  fc.noBias(
    fc.array(replicas === 1 ? step : step.filter((one) => !isAboutBins(one)), {
      minLength: 1,
      maxLength: most,
      size: 'max',
    }),
  );
