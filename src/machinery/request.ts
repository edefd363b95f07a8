export type ResourceVerb =
  'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

/** The user of a request, as in authentication.k8s.io/v1. */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The target of a request, parsed from its method and path alone. */
export type RequestInfo =
  | {
      readonly kind: 'resource';
      readonly verb: ResourceVerb;
      readonly group: string;
      readonly version: string;
      readonly resource: string;
      readonly subresource: string;
      /** Empty for cluster-scoped resources and for all namespaces. */
      readonly namespace: string;
      /** Empty for collections and creates. */
      readonly name: string;
      readonly path: string;
    }
  | {
      readonly kind: 'path';
      /** The HTTP method in lower case, as RBAC rules with nonResourceURLs name it. */
      readonly verb: string;
      readonly path: string;
    };

export type ResourceRequest = Extract<RequestInfo, { kind: 'resource' }>;

/** Warnings and audit annotations of a request. */
export interface Notes {
  /** A `Warning` header. */
  readonly warn: (text: string) => void;
  /** An audit annotation. */
  readonly annotate: (key: string, value: string) => void;
}
