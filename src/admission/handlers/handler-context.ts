/** What a handler is given beside the object: the second argument of `mutate` and `validate`. */
import type { LabelSelector } from '../../api/policy-match.ts';
import type { AdmissionRequest, UserInfo } from '../review/request.ts';
import type { Denial, DenialOptions } from './denial.ts';
import type { Frozen } from './frozen.ts';
import type { UntypedObject } from './handler.ts';

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
