import type { JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import type { RequestInfo, ResourceRequest, UserInfo } from '../request.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import type { Place, Storage } from '../storage/stored.ts';

/** What admission is told of a request. `object` is undefined on DELETE, `oldObject` on CREATE. */
export interface AdmissionAttributes {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly type: ResourceType;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly object?: ApiObject;
  readonly oldObject?: ApiObject;
  /** What the objects are where the subresource has a kind of its own: webhooks see them in no other version. */
  readonly shownAs?: ResourceType;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** CreateOptions, UpdateOptions or DeleteOptions of meta.k8s.io/v1. */
  readonly options: JsonObject;
}

/** Where a request's side messages go. */
export interface Notes {
  /** A `Warning` header. */
  readonly warn: (text: string) => void;
  /** An audit annotation. */
  readonly annotate: (key: string, value: string) => void;
}

export interface Admission {
  /** The object after all mutating plugins; `complete` prunes and defaults it after each patch. @throws ApiFailure */
  readonly mutate: (
    attributes: AdmissionAttributes,
    complete: (object: ApiObject) => ApiObject,
    notes: Notes,
  ) => Promise<ApiObject | undefined>;
  /** @throws ApiFailure */
  readonly validate: (attributes: AdmissionAttributes, notes: Notes) => Promise<void>;
}

/** What the pipeline works with; one for the life of a sandbox. */
export interface Api {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly admission: Admission;
  /** Objects of one resource in the version of `type`. */
  readonly convert: (objects: readonly ApiObject[], type: ResourceType) => Promise<readonly ApiObject[]>;
  readonly now: () => Date;
  readonly newUid: () => string;
  /** Five characters for generateName. */
  readonly newSuffix: () => string;
  /** A token for a ServiceAccount, good for so many seconds. */
  readonly issueToken: (namespace: string, name: string, uid: string, seconds: number) => string;
  readonly authorize: (
    user: UserInfo,
    info: ResourceRequest,
  ) => { readonly allowed: boolean; readonly reason: string };
  /** Why this user may not write this RBAC object; undefined when they may. */
  readonly escalationProblem: (
    user: UserInfo,
    object: ApiObject,
    old: ApiObject | undefined,
  ) => string | undefined;
}

/** One request on its way. */
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

export const placeOf = ({ group, resource }: ResourceType): Place => {
  // Events of both groups are one resource in the API server too.
  if (group === 'events.k8s.io') return { group: '', resource };
  return { group, resource };
};

/** RFC 3339 with seconds, as metadata has times. */
export const timestamp = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`;
