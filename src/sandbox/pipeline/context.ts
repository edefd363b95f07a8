import type { ApiObject } from '../../machinery/api-object.ts';
import type { ConvertObjects } from '../../machinery/crd/convert.ts';
import type { Notes, RequestInfo, ResourceRequest, UserInfo } from '../../machinery/request.ts';
import type { ResourceRegistry } from '../../machinery/resource-type.ts';
import type { Storage } from '../../machinery/storage/stored.ts';
import type { Admission } from '../../machinery/webhooks/admission.ts';

/** The dependencies of the request pipeline, created once per sandbox. */
export interface Api {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly admission: Admission;
  readonly convert: ConvertObjects;
  readonly now: () => Date;
  readonly newUid: () => string;
  /** Five characters for generateName. */
  readonly newSuffix: () => string;
  /** A token for a ServiceAccount, valid for this many seconds. */
  readonly issueToken: (namespace: string, name: string, uid: string, seconds: number) => string;
  readonly authorize: (
    user: UserInfo,
    info: ResourceRequest,
  ) => { readonly allowed: boolean; readonly reason: string };
  /** Why the user may not write this RBAC object; undefined if the write is allowed. */
  readonly escalationProblem: (
    user: UserInfo,
    object: ApiObject,
    old: ApiObject | undefined,
  ) => string | undefined;
}

/** A request in progress. */
export interface ApiRequest {
  readonly method: string;
  readonly info: RequestInfo;
  readonly query: URLSearchParams;
  readonly accept: string | undefined;
  readonly contentType: string | undefined;
  readonly userAgent: string;
  readonly body: Uint8Array;
  readonly user: UserInfo;
  readonly notes: Notes;
}
