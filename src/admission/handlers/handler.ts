/** What a handler is: the types of `defineHandler`. */
import type { LabelSelector } from '../../api/policy-match.ts';
import type { Operation } from '../review/request.ts';
import type { MatchCondition } from '../webhooks/scope.ts';
import type { Denial } from './denial.ts';
import type { Frozen } from './frozen.ts';
import type { HandlerContext } from './handler-context.ts';

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
  /** The name of the version of which the handler's objects are, e.g. `v2`. */
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
   * The kinds that `context.get` and `context.list` may read. Each is watched from the start; Gatehouse needs leave to get, list and
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
