/** `defineController` and its types. */
import type { Frozen, HandlerLog, ReadableKind, UntypedObject } from '../admission/handlers/handler.ts';
import { type LabelSelector, normaliseSelector } from '../json/label-selector.ts';
import type { Kinds, ObjectOf } from './kinds.ts';
import type { WatchSource } from './watch-map.ts';
import type { OwnMetricDefinition } from '../api/own-metric.ts';
import { controllerProblems } from '../api/controller-definition.ts';

/** The kind whose objects a controller reconciles: one group, one version, one plural. */
export interface WatchedKind {
  /** e.g. `['example.com']`; `['']` for the core group. */
  readonly apiGroups: readonly [string];
  /** e.g. `['v1']`: the version of the type that the author wrote. */
  readonly apiVersions: readonly [string];
  /** e.g. `['users']`. */
  readonly resources: readonly [string];
}

/** Kinds whose objects a controller applies: one group, one version, any number of plurals. */
export interface OwnedKinds {
  readonly apiGroups: readonly [string];
  readonly apiVersions: readonly [string];
  readonly resources: readonly string[];
}

/** A rule of a ClusterRole, for permissions that do not follow from the declarations, such as `bind` of a role. */
export interface PolicyRule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
  readonly verbs: readonly string[];
}

export interface RateLimit {
  /** Above 0, at most 1,000. */
  readonly passesPerSecond: number;
  /** How many passes can start at once after a rest. Default: `passesPerSecond`, rounded up. */
  readonly burst?: number;
}

/** A metric of `metrics`. Labels without a value are empty. At most 1,000 series a metric: further ones are dropped. */
export interface OwnMetric {
  /** Of a counter or gauge. Default: 1. */
  readonly add: (value?: number, labels?: Readonly<Record<string, string>>) => void;
  /** Of a gauge. */
  readonly set: (value: number, labels?: Readonly<Record<string, string>>) => void;
  /** Of a histogram. */
  readonly observe: (value: number, labels?: Readonly<Record<string, string>>) => void;
  /** Ends the series, such as one of an object that is gone. */
  readonly remove: (labels?: Readonly<Record<string, string>>) => void;
}

/** The argument of `defineController`. */
export interface ControllerDefinition<T extends object = UntypedObject> {
  /** A DNS label of at most 40 characters, unique among the controllers. Default: the name of the file. */
  readonly name?: string;
  readonly watch: WatchedKind;
  /** What `apply` and `remove` may write. A change of an applied object reconciles its owner again. */
  readonly owns?: readonly OwnedKinds[];
  /** Further kinds that `get` and `list` may read. Their changes reconcile nothing: use `watches`. */
  readonly reads?: readonly ReadableKind[];
  /** Further kinds, whose changes reconcile the objects that `map` returns. */
  readonly watches?: readonly WatchSource[];
  /** Values of the objects of `watch` by which `map` and `list` find them, such as the name of a Secret. */
  readonly indexes?: Readonly<Record<string, (object: Frozen<T>) => readonly string[]>>;
  /**
   * Whether a change of the object, apart from its status, causes a pass. Not asked about new objects and deletions. Default: every
   * change.
   */
  readonly when?: (object: Frozen<T>, before: Frozen<T>) => boolean;
  /** Permissions in addition to those that follow from `watch`, `owns` and `reads`. */
  readonly rules?: readonly PolicyRule[];
  /**
   * Whether the conditions and `observedGeneration` in the status belong to this controller. Default: true, except for
   * the kinds of Kubernetes itself. If false, `condition`, `status` and `progress` throw, and only Events, logs and
   * metrics report a failure.
   */
  readonly writesStatus?: boolean;
  /**
   * If false, the controller runs in every replica of the controllers, and writes nothing, not even Events: for caches, metrics and
   * local systems. Only without `owns` and `finalize`, and with `writesStatus: false`. Default: true.
   */
  readonly leaderOnly?: boolean;
  /** How many objects are reconciled at the same time. Default: 4. */
  readonly concurrency?: number;
  /** At most so many passes over all objects, as in a token bucket. Default: no limit. */
  readonly rateLimit?: RateLimit;
  /** The delay after a failure, which doubles with each failure in a row. Default: 1 s to 300 s. */
  readonly retry?: { readonly baseSeconds: number; readonly maxSeconds: number };
  /** Own metrics by name, with the label `controller`: see `metric`. */
  readonly metrics?: Readonly<Record<string, OwnMetricDefinition>>;
  /**
   * When a deletion counts as blocked, in seconds after `deletionTimestamp`. Then the condition, an Event and a metric say what
   * blocks it; the finalizer stays. Default: 600.
   */
  readonly finalizeTimeoutSeconds?: number;
  /** How long one pass may take, in seconds from 1 to 600. Default: 60. Then `signal` aborts, and the pass failed. */
  readonly timeoutSeconds?: number;
  /**
   * Brings the world to the state that the object describes. Each pass applies everything that the object needs: what an
   * earlier pass applied and this one does not is deleted when it returns. Must be idempotent.
   */
  readonly reconcile: (object: Frozen<T>, context: ControllerContext) => Promise<void> | void;
  /**
   * Cleans up what Kubernetes does not, before the object disappears. With it, each object gets a
   * finalizer before its first pass. What `reconcile` applied is deleted afterwards, and the finalizer goes last.
   */
  readonly finalize?: (object: Frozen<T>, context: ControllerContext) => Promise<void> | void;
}

/** Marks a definition that `defineController` has checked. All copies of this package in a process share the symbol. */
export const CONTROLLER: unique symbol = Symbol.for('gatehouse.dev/controller');

/** A controller, created by `defineController`: a default export of a module, alone or in a list. */
export interface Controller<T extends object = UntypedObject> extends ControllerDefinition<T> {
  readonly [CONTROLLER]: true;
}

export function isController(value: unknown): value is Controller {
  return typeof value === 'object' && value !== null && Reflect.get(value, CONTROLLER) === true;
}

/** An object to apply: complete as far as the controller decides its fields. */
export interface AppliedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: AppliedMeta;
}

interface AppliedMeta {
  readonly name: string;
  /** Required for namespaced kinds. */
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The fields of a known kind, or any. */
type AppliedFields<ApiVersion, Kind> = [ObjectOf<ApiVersion, Kind>] extends [never]
  ? { readonly metadata: AppliedMeta; readonly [field: string]: unknown }
  : Frozen<Omit<ObjectOf<ApiVersion, Kind>, 'apiVersion' | 'kind' | 'metadata' | 'status'>> & {
      readonly metadata: AppliedMeta;
    };

/** As the API server stores it. */
type Stored<ApiVersion, Kind, Fallback> = [ObjectOf<ApiVersion, Kind>] extends [never]
  ? Fallback & UntypedObject
  : Frozen<ObjectOf<ApiVersion, Kind>>;

export interface ApplyOptions {
  /** Whether to take over an existing object without a controller. Default: false; the pass then fails. */
  readonly adopt?: boolean;
}

/** The name of an object of a kind in `owns`. */
export type RemovedObject = Pick<AppliedObject, 'apiVersion' | 'kind' | 'metadata'>;

/** Such as `list` returns it. */
export interface KeptObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: object;
}

export interface ReadOptions {
  readonly name: string;
  /** Default: the namespace of the reconciled object. Ignored for cluster-scoped kinds. */
  readonly namespace?: string;
}

export interface ListOptions {
  /** Default: the namespace of the reconciled object, or all namespaces if it has none. */
  readonly namespace?: string;
  readonly labelSelector?: LabelSelector;
  /** Only for the kind in `watch`: the values of `indexes`, such as `{ secret: 'db' }`. */
  readonly index?: Readonly<Record<string, string>>;
}

export interface Apply {
  /** A literal of a known kind has the fields of the kind. */
  <ApiVersion extends string, Kind extends string>(
    object: { readonly apiVersion: ApiVersion; readonly kind: Kind } & AppliedFields<ApiVersion, Kind>,
    options?: ApplyOptions,
  ): Promise<Stored<ApiVersion, Kind, { readonly apiVersion: ApiVersion; readonly kind: Kind }>>;
  /** A value of a type whose `apiVersion` and `kind` are any text, such as `V1Deployment` of client-node. */
  <const Applied extends { apiVersion?: string; kind?: string; metadata?: object }>(
    object: string extends Applied['apiVersion'] ? Applied : never,
    options?: ApplyOptions,
  ): Promise<Frozen<Applied>>;
}

export interface Get {
  <Resource extends keyof Kinds>(
    resource: Resource,
    options: ReadOptions,
  ): Promise<Frozen<Kinds[Resource]> | undefined>;
  <Found extends object = UntypedObject>(
    resource: string,
    options: ReadOptions,
  ): Promise<Frozen<Found> | undefined>;
}

export interface List {
  <Resource extends keyof Kinds>(
    resource: Resource,
    options?: ListOptions,
  ): Promise<readonly Frozen<Kinds[Resource]>[]>;
  <Found extends object = UntypedObject>(
    resource: string,
    options?: ListOptions,
  ): Promise<readonly Frozen<Found>[]>;
}

/** A record of an operation in an external system, in `status.progress`. */
export interface ProgressRecord {
  /** What is being done, e.g. `create-server`. */
  readonly operation: string;
  /** The same in each attempt of this operation, and never used before: the idempotency key for the external system. */
  readonly id: string;
  /** RFC 3339. */
  readonly startedAt: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
}

export interface Progress {
  /** The operation that an earlier pass, perhaps in another process, started and did not finish. */
  readonly current: ProgressRecord | undefined;
  /**
   * Records the operation in the status, before it starts. If the same operation is already recorded, only its attempt
   * counts up: a crash between the call and its result leads to the same id.
   *
   * @throws Error if another operation is unfinished: finish or clear it first
   */
  readonly start: (operation: string) => Promise<ProgressRecord>;
  /** The operation is over, and its result is where the next pass finds it. Takes effect with the status of this pass. */
  readonly finish: () => void;
}

export interface ControllerContext {
  /**
   * Server-side apply of an object of a kind in `owns`, with an owner reference if the scopes allow it. Sends nothing if
   * nothing differs. Returns the stored object. Apply each object once per pass.
   *
   * @throws Error if the object exists and belongs to something else
   * @throws TypeError if this pass applied the object with different content
   */
  readonly apply: Apply;
  /**
   * Deletes an object of a kind in `owns` if it belongs to the reconciled object. True: it is gone. False: it is being
   * deleted, and its end causes another pass; `finalize` is then not complete. Keeps an object that this controller cannot
   * prove to have created, and reports it with the Event `NotDeleted`: false in `reconcile`, true in `finalize`.
   *
   * @throws TypeError if this pass applied the object
   */
  readonly remove: (object: RemovedObject) => Promise<boolean>;
  /**
   * Keeps an object of a kind in `owns` that an earlier pass applied, as it is: for runs, which are never applied again.
   * What a pass neither applies nor keeps is deleted when it returns.
   */
  readonly keep: (object: KeptObject) => void;
  /** Reads one object of a kind in `watch`, `owns` or `reads`, named like `namespaces`. Sees the controller's own writes. */
  readonly get: Get;
  /** Lists objects of such a kind. Sees the controller's own writes. */
  readonly list: List;
  /**
   * Sets a condition for this pass. The conditions of the object belong to this controller: one that a pass does not set
   * disappears. Write positive conditions: `Ready` is False while one of them is not True, unless the pass sets `Ready`
   * itself. The reason is one word. Default of `message`: the reason.
   */
  readonly condition: (
    type: string,
    status: 'True' | 'False' | 'Unknown',
    reason: string,
    message?: string,
  ) => void;
  /** Sets further fields of the status, as JSON. They stay until a pass sets them to null; `undefined` changes nothing. */
  readonly status: (fields: Readonly<Record<string, unknown>>) => void;
  /**
   * The world is not as it should be yet: `Ready` is False and `Reconciling` is True, and nothing is pruned. Another pass
   * follows after a change, or after `afterSeconds`.
   */
  readonly wait: (reason: string, message: string, options?: { readonly afterSeconds?: number }) => void;
  /** The object cannot be reconciled until a user changes it: `Stalled` is True, and nothing is pruned. */
  readonly stall: (reason: string, message: string) => void;
  /** Another pass after this time, at most 1e9 s, to correct drift that is not reported. The shortest of several times counts. */
  readonly requeueAfter: (seconds: number) => void;
  readonly progress: Progress;
  /** A key for an external system that is the same in each pass for this object and these parts. */
  readonly idempotencyKey: (...parts: readonly string[]) => string;
  /** @throws TypeError if `metrics` lacks the name */
  readonly metric: (name: string) => OwnMetric;
  /** Records an Event about the object. */
  readonly event: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
  /** The time of the pass, which tests can move. */
  readonly now: () => Date;
  /** Aborts at the deadline of the pass, and when this process stops leading. Pass it to all asynchronous work. */
  readonly signal: AbortSignal;
  readonly log: HandlerLog;
}

const selectorProblems = ({ watches }: Pick<ControllerDefinition<never>, 'watches'>): readonly string[] =>
  (Array.isArray(watches) ? (watches as readonly Partial<WatchSource>[]) : []).flatMap((source, index) =>
    normaliseSelector(source.labelSelector, `watches.${index}.labelSelector`).problems.map(
      ({ where, message }) => `${where}: ${message}`,
    ),
  );

/** A controller: TypeScript that brings the world to the state that each object of a kind describes. */
export function defineController<T extends object = UntypedObject>(
  definition: ControllerDefinition<T>,
): Controller<T> {
  const problems = [...controllerProblems(definition), ...selectorProblems(definition)];
  if (problems.length > 0) throw new TypeError(`defineController: ${problems.join('; ')}`);
  return Object.freeze({ ...definition, [CONTROLLER]: true as const });
}
