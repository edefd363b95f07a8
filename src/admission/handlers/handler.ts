/** What a handler is: the types of `defineHandler`. */
import type { LabelSelector } from '../../api/policy-match.ts';
import type { Operation, AdmissionRequest, UserInfo } from '../review/request.ts';
import type { MatchCondition } from '../policy/compiled-policy.ts';
import type { Denial, DenialOptions } from './errors.ts';

/** An object whose type the author does not give. */
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

/** A type with everything in it read-only, as what a handler is given but may not change. */
export type Frozen<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Frozen<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Frozen<T[Key]> }
      : T;

/** Which requests the API server sends to a handler; as `spec.match` of an AdmissionPolicy. */
export interface HandlerMatch {
  /** e.g. `infra.example.com`; empty for the core group. Wildcards are refused. */
  readonly apiGroups: readonly string[];
  /**
   * Default: all. With one version, the API server converts objects of all others to it before it asks: then the type that the
   * handler is written for is the type that it gets.
   */
  readonly apiVersions?: readonly string[];
  /** Plurals such as `servers`, or subresources such as `servers/status`. */
  readonly resources: readonly string[];
  /** Default: CREATE and UPDATE. `mutate` is called on these two alone. */
  readonly operations?: readonly Operation[];
  /** Only objects in namespaces with these labels. */
  readonly namespaceSelector?: LabelSelector;
  /** Only objects with these labels, before or after the change. Not a security boundary: users can label their way out. */
  readonly objectSelector?: LabelSelector;
  /** CEL that the API server evaluates before it asks (Kubernetes 1.28 and newer). */
  readonly matchConditions?: readonly MatchCondition[];
}

/** What becomes of a request whose handler throws, hangs or makes something of the object that cannot be sent. */
export type OnError =
  /** The request is refused with code 500, whatever the failurePolicy. */
  | 'deny'
  /** HTTP 500, which the API server judges by `failurePolicy`: `Fail` refuses, `Ignore` goes on without the handler. */
  | 'failurePolicy'
  /** The request goes on with the object as it was, and the user sees a warning. */
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
      /** Whether only apiVersion, kind and metadata are read and kept: a fraction of the memory. Default: false. */
      readonly metadataOnly?: boolean;
    };

/** Nothing, or a refusal. Anything else is a mistake and fails the handler: `false` refuses nothing. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- what a function without a return gives
export type HandlerAnswer = Denial | undefined | void | Promise<Denial | undefined | void>;

/** What a conversion gives back: another object, or nothing after it has changed the one that it was given. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- what a function without a return gives
export type Converted = object | undefined | void;

/** How objects of one version become those of the hub, and back. Both are given a copy, which they may change. */
export interface VersionConversion<Hub extends object> {
  // Methods and not properties, so that an author can give the parameter the type of the version.
  toHub(object: object): Converted;
  fromHub(object: Hub): Converted;
}

/**
 * Conversion between the versions of one CustomResourceDefinition, each by way of the hub. It has to be pure, and lossless there and
 * back: what a version has no field for goes into an annotation. `apiVersion`, and metadata but labels and annotations, are looked
 * after by Gatehouse. A thrown `ConversionFailure` is shown to the user; the text of other errors is not.
 */
export interface HandlerConversion<Hub extends object = UntypedObject> {
  /** The version of the objects that the handler works on, e.g. `v2`. */
  readonly hub: string;
  /** All others that are served, by name. */
  readonly versions: Readonly<Record<string, VersionConversion<Hub>>>;
}

/** What `defineHandler` is given. */
export interface HandlerDefinition<T extends object = UntypedObject> {
  /**
   * A DNS label of at most 40 characters, unique among the handlers: it stands in messages, metrics and the name of the webhook.
   * Default: the name of the file.
   */
  readonly name?: string;
  readonly match: HandlerMatch;
  /** What the API server does when it cannot reach Gatehouse. Default: `Fail`. */
  readonly failurePolicy?: 'Fail' | 'Ignore';
  /** How long the API server waits for an answer, 1 to 30. Default: 5. */
  readonly timeoutSeconds?: number;
  /** Default: `failurePolicy`. */
  readonly onError?: OnError;
  /**
   * The kinds that `context.get` and `context.list` may read. Each is watched from the start; Gatehouse needs permission to get, list and
   * watch it (`gatehouse manifests` prints the ClusterRole). Default: the kinds in `match`, watched from their first use on.
   */
  readonly reads?: readonly ReadableKind[];
  /**
   * Changes `draft`, a copy of the object, in place. On CREATE and UPDATE alone, and not once the object is being deleted. Called again with the result, it must change
   * nothing more: the API server may ask twice.
   */
  readonly mutate?: (draft: T, context: HandlerContext<T>) => HandlerAnswer;
  /** Judges `object`, which is the one that goes on DELETE and the options on CONNECT. */
  readonly validate?: (object: Frozen<T>, context: HandlerContext<T>) => HandlerAnswer;
  /**
   * Converts between versions; then `match` names one group and one resource. Point `spec.conversion.webhook` of the
   * CustomResourceDefinition to the Service of Gatehouse, path `/convert/<name of the definition>`.
   */
  readonly convert?: HandlerConversion<T>;
}

/** Marks what `defineHandler` has checked; the same for every copy of this package in a process. */
export const HANDLER: unique symbol = Symbol.for('gatehouse.dev/handler');

/** A handler: what a module exports as default. Made by `defineHandler`. */
export interface Handler<T extends object = UntypedObject> extends HandlerDefinition<T> {
  readonly [HANDLER]: true;
}

/** The request that is judged, as the API server describes it. Frozen. */
export interface HandlerRequest extends Omit<AdmissionRequest, 'object' | 'oldObject' | 'userInfo'> {
  /**
   * The name of the object, wherever the API server has put it: also on `deletecollection`, where the request itself names none.
   * Undefined only while a name is still to be generated (`metadata.generateName`), as `mutate` sees it on CREATE.
   */
  readonly name: string | undefined;
  /** Undefined for cluster-scoped objects, Namespaces among them. */
  readonly namespace: string | undefined;
  /** Who asks. */
  readonly user: UserInfo;
  /** Whether nothing will be stored. A handler has no side effects, so it need not look. */
  readonly dryRun: boolean;
  /** The CreateOptions, UpdateOptions, … of the request. */
  readonly options: AdmissionRequest['options'];
}

export interface GetOptions {
  readonly name: string;
  /** Default: the namespace of the request. Without meaning for cluster-scoped kinds. */
  readonly namespace?: string;
  /** Whether to ask the API server whatever the cache holds. Default: false. */
  readonly live?: boolean;
}

export interface ListOptions {
  /** Default: the namespace of the request, or all for a request without one. Without meaning for cluster-scoped kinds. */
  readonly namespace?: string;
  /** Whether to list all namespaces. Default: false. */
  readonly allNamespaces?: boolean;
  readonly labelSelector?: LabelSelector;
  /** Whether to ask the API server instead of the cache. Default: false. */
  readonly live?: boolean;
}

/** Writes to the log of Gatehouse, together with the name of the handler and the uid of the request. */
export interface HandlerLog {
  readonly debug: (message: string, fields?: object) => void;
  readonly info: (message: string, fields?: object) => void;
  readonly warn: (message: string, fields?: object) => void;
  readonly error: (message: string, fields?: object) => void;
}

export interface HandlerContext<T extends object = UntypedObject> {
  readonly request: HandlerRequest;
  /**
   * What the request is about, as the API server sent it and before any handler changed it: the new object on CREATE and UPDATE,
   * the one that goes on DELETE, the options on CONNECT. Frozen: a change to it is an exception.
   */
  readonly original: Frozen<T>;
  /** The object as it is stored now; undefined on CREATE and CONNECT. Frozen. */
  readonly oldObject: Frozen<T> | undefined;
  /**
   * Refuses the request. The call is what refuses: return or throw what it gives to end the handler there, or go on and refuse
   * more fields; the user is shown all of them. Changes to the draft are dropped.
   *
   * When the handler read from the cache before it refused, it is run a second time with live reads, and that run counts: a cache
   * may be some milliseconds behind, and must not be the reason of a refusal.
   */
  readonly deny: (message: string, options?: DenialOptions) => Denial;
  /** Shows the user a warning, whatever becomes of the request. Line breaks make several; each is cut at 256 characters. */
  readonly warn: (text: string) => void;
  /**
   * Adds an annotation to the API server's audit event, under `<name of the webhook>/<key>`.
   *
   * @throws TypeError when the key is not of letters, digits, `-`, `_` and `.` (63 at most, letter or digit at both ends): the API
   * server would drop it with no more than a line in its log.
   */
  readonly audit: (key: string, value: string) => void;
  /**
   * Reads one object of a kind in `reads`: `datacenters.infra.example.com`, or `datacenters` for short when no two kinds in `reads`
   * are called that. From the cache when it is there, else live: undefined means that there certainly is none. Frozen.
   *
   * @throws ReadError when the API server does not say. Let it pass: the API server is then told to ask again.
   */
  readonly get: <Found extends object = UntypedObject>(
    resource: string,
    options: GetOptions,
  ) => Promise<Frozen<Found> | undefined>;
  /**
   * Lists the objects of a kind in `reads`, in one namespace by default. From the cache, which may be some milliseconds behind;
   * with `live`, from the API server. Frozen.
   *
   * @throws ReadError as `get`
   */
  readonly list: <Found extends object = UntypedObject>(
    resource: string,
    options?: ListOptions,
  ) => Promise<readonly Frozen<Found>[]>;
  /** Aborts when the time to answer is over, which is about a second before `timeoutSeconds`. Give it to whatever waits. */
  readonly signal: AbortSignal;
  readonly log: HandlerLog;
}
