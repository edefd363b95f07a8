export type ResourceVerb =
  'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

/** Who asks, as authentication.k8s.io/v1 has it. */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What a request is for, read from its method and path alone. */
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
      /** Lower-case HTTP method, which is what RBAC's nonResourceURLs rules name. */
      readonly verb: string;
      readonly path: string;
    };

export type ResourceRequest = Extract<RequestInfo, { kind: 'resource' }>;

/** Where a request's side messages go. */
export interface Notes {
  /** A `Warning` header. */
  readonly warn: (text: string) => void;
  /** An audit annotation. */
  readonly annotate: (key: string, value: string) => void;
}
