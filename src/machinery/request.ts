export type ResourceVerb =
  'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

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

export interface Notes {
  readonly warn: (text: string) => void;
  readonly annotate: (key: string, value: string) => void;
}
