/** The types of `defineHandler`. */
import type { LabelSelector } from '../../json/label-selector.ts';
import type { AdmissionRequest, MatchCondition, Operation } from '../review/request.ts';
import type { Denial, DenialOptions } from './errors.ts';
import { definitionProblems } from '../../api/handler-definition.ts';

/** The object type if the author gives none. */
export interface UntypedObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** The type with all fields read-only, at every level: for input that a handler must not change. */
export type Frozen<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends Date
    ? string
    : T extends readonly (infer Item)[]
      ? readonly Frozen<Item>[]
      : T extends object
        ? { readonly [Key in keyof T]: Frozen<T[Key]> }
        : T;

/** Which requests the API server sends to a handler, like `spec.match` of an AdmissionPolicy. */
export interface HandlerMatch {
  /** e.g. `infra.example.com`; empty for the core group. Wildcards are invalid. */
  readonly apiGroups: readonly string[];
  /** Default: all. With one version, the API server converts all objects to it, so the handler receives one type. */
  readonly apiVersions?: readonly string[];
  /** Plurals such as `servers`, or subresources such as `servers/status`. */
  readonly resources: readonly string[];
  /** Default: CREATE and UPDATE. `mutate` runs on these two only. */
  readonly operations?: readonly Operation[];
  /** Only objects in namespaces with these labels. */
  readonly namespaceSelector?: LabelSelector;
  /** Only objects with these labels, before or after the change. Not a security boundary: users can remove labels. */
  readonly objectSelector?: LabelSelector;
  /** CEL that the API server evaluates before it calls the webhook. */
  readonly matchConditions?: readonly MatchCondition[];
}

/** What happens to a request if its handler throws, hangs, or produces an object that cannot be sent. */
export type OnError =
  /** The request is refused with code 500, regardless of the failurePolicy. After a failed read, the client retries. */
  | 'deny'
  /** The request continues with the unchanged object, and the user sees a warning. */
  | 'allow';

/** A kind that a handler reads: `datacenters.infra.example.com`, `secrets`, or in full. */
export type ReadableKind =
  | string
  | {
      /** Default: the core group. */
      readonly apiGroup?: string;
      /** Default: the version that the API server prefers, which may change when the CRD does. */
      readonly apiVersion?: string;
      /** The plural. */
      readonly resource: string;
      /** Whether to read and store only apiVersion, kind and metadata, which needs less memory. Default: false. */
      readonly metadataOnly?: boolean;
    };

/** Nothing, or a refusal. Any other value is a mistake and fails the handler: `false` does not refuse. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- what a function without a return gives
export type HandlerAnswer = Denial | undefined | void | Promise<Denial | undefined | void>;

/** The result of a conversion: a new object, or nothing if it changed the given object in place. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- what a function without a return gives
export type Converted = object | undefined | void;

/** Converts objects of one version to the hub and back. Both functions receive a copy, which they may change. */
export interface VersionConversion<Hub extends object> {
  // Methods, so that an author can give the parameter the type of the version.
  toHub(object: object): Converted;
  fromHub(object: Hub): Converted;
}

/**
 * Converts between the versions of one CustomResourceDefinition, always through the hub. It must be pure, and lossless
 * in both directions: keep a value in an annotation if a version lacks a field for it. Gatehouse sets `apiVersion` and all
 * metadata except labels and annotations. Users see the message of a thrown `ConversionFailure`, but not of other
 * errors.
 */
export interface HandlerConversion<Hub extends object = UntypedObject> {
  /** The version of the objects that the handler works on, e.g. `v2`. */
  readonly hub: string;
  /** All other served versions by name. */
  readonly versions: Readonly<Record<string, VersionConversion<Hub>>>;
}

/** The argument of `defineHandler`. */
export interface HandlerDefinition<T extends object = UntypedObject> {
  /** A DNS label of at most 40 characters, unique among the handlers, for messages and metrics. Default: the file's name. */
  readonly name?: string;
  readonly match: HandlerMatch;
  /** What the API server does when it cannot reach Gatehouse. Default: `Fail`. */
  readonly failurePolicy?: 'Fail' | 'Ignore';
  /** How long the API server waits for an answer, in seconds from 1 to 30. Default: 5. */
  readonly timeoutSeconds?: number;
  /** Default: `deny`. */
  readonly onError?: OnError;
  /**
   * The kinds that `context.get` and `context.list` may read. Gatehouse watches them from the start, and needs
   * permission to get, list and watch them (`gatehouse manifests` prints the ClusterRole). Default: the kinds in
   * `match`, watched from their first use.
   */
  readonly reads?: readonly ReadableKind[];
  /** Changes `draft`, a copy of the object, in place, on CREATE and UPDATE. Must be idempotent, because it may run twice. */
  readonly mutate?: (draft: T, context: HandlerContext<T>) => HandlerAnswer;
  /** Validates `object`: the deleted object on DELETE, the options on CONNECT. */
  readonly validate?: (object: Frozen<T>, context: HandlerContext<T>) => HandlerAnswer;
  /**
   * Converts between versions. `match` must then have one group and one resource. Point `spec.conversion.webhook` of
   * the CustomResourceDefinition to the Service of Gatehouse, path `/convert/<name of the definition>`.
   */
  readonly convert?: HandlerConversion<T>;
}

/** Marks a definition that `defineHandler` has checked. All copies of this package in a process share the symbol. */
export const HANDLER: unique symbol = Symbol.for('gatehouse.dev/handler');

/** A handler, created by `defineHandler`: the default export of a module. */
export interface Handler<T extends object = UntypedObject> extends HandlerDefinition<T> {
  readonly [HANDLER]: true;
}

export const isHandler = (value: unknown): value is Handler =>
  typeof value === 'object' && value !== null && Reflect.get(value, HANDLER) === true;

/** The request as the API server describes it. `user` is the requester. Frozen. */
export interface HandlerRequest extends Omit<AdmissionRequest, 'object' | 'oldObject' | 'userInfo'> {
  readonly user: AdmissionRequest['userInfo'];
}

export interface GetOptions {
  readonly name: string;
  /** Default: the namespace of the request. Ignored for cluster-scoped kinds. */
  readonly namespace?: string;
  /** Whether to read from the API server and bypass the cache. Default: false. */
  readonly live?: boolean;
}

export interface ListOptions {
  /** Default: the namespace of the request, or all namespaces if it has none. Ignored for cluster-scoped kinds. */
  readonly namespace?: string;
  /** Whether to list all namespaces. Default: false. */
  readonly allNamespaces?: boolean;
  readonly labelSelector?: LabelSelector;
  /** Whether to list from the API server and bypass the cache. Default: false. */
  readonly live?: boolean;
}

/** Writes to the log of Gatehouse, with the name of the handler and the uid of the request. */
export type HandlerLog = Readonly<
  Record<'debug' | 'info' | 'warn' | 'error', (message: string, fields?: object) => void>
>;

export interface HandlerContext<T extends object = UntypedObject> {
  readonly request: HandlerRequest;
  /** The object before any handler changed it: the deleted object on DELETE, the options on CONNECT. Frozen. */
  readonly original: Frozen<T>;
  /** The stored object; undefined on CREATE and CONNECT. Frozen. */
  readonly oldObject: Frozen<T> | undefined;
  /**
   * Refuses the request. The call itself refuses: return or throw its result to end the handler, or continue and refuse
   * more fields. The user sees all refusals. Gatehouse discards changes to the draft.
   *
   * If the handler read from the cache before it refused, Gatehouse runs it a second time with live reads, and uses
   * that result. The cache may be some milliseconds behind, and must not cause a refusal.
   */
  readonly deny: (message: string, options?: DenialOptions) => Denial;
  /** Shows the user a warning, regardless of the decision. Each line is a separate warning, cut at 256 characters. */
  readonly warn: (text: string) => void;
  /**
   * Adds an annotation to the API server's audit event, under `<name of the webhook>/<key>`. A key has at most 63
   * letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. A value is cut at 1024 characters. After 20
   * keys, others are omitted, with a line in the log.
   *
   * @throws TypeError if the key is invalid: the API server would drop it and only write a line to its log
   */
  readonly audit: (key: string, value: string) => void;
  /**
   * Reads one object of a kind in `reads`: `datacenters.infra.example.com`, or `datacenters` if that is unique in
   * `reads`. Reads from the cache if the object is there, otherwise live: undefined means that the object does not
   * exist. Frozen.
   *
   * @throws ReadError if the API server does not answer. Do not catch it: Gatehouse then tells the API server to retry.
   */
  readonly get: <Found extends object = UntypedObject>(
    resource: string,
    options: GetOptions,
  ) => Promise<Frozen<Found> | undefined>;
  /**
   * Lists the objects of a kind in `reads`, by default in one namespace. Reads from the cache, which may be some
   * milliseconds behind; with `live`, from the API server. Frozen.
   *
   * @throws ReadError like `get`
   */
  readonly list: <Found extends object = UntypedObject>(
    resource: string,
    options?: ListOptions,
  ) => Promise<readonly Frozen<Found>[]>;
  /** Aborts when the answer is due, about a second before `timeoutSeconds`. Pass it to all asynchronous work. */
  readonly signal: AbortSignal;
  readonly log: HandlerLog;
}

/** A handler: TypeScript that mutates, validates or converts objects, where an AdmissionPolicy is not enough. */
export function defineHandler<T extends object = UntypedObject>(
  definition: HandlerDefinition<T>,
): Handler<T> {
  const problems = definitionProblems(definition);
  if (problems.length > 0) throw new TypeError(`defineHandler: ${problems.join('; ')}`);
  return Object.freeze({ ...definition, [HANDLER]: true as const });
}
