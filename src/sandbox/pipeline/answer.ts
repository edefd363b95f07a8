import type { ApiObject } from '../../machinery/api-object.ts';
import type { Status } from '../../machinery/failure.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import type { Page } from '../../machinery/storage/stored.ts';

/** The result of a request, before it is rendered in the form that the client accepts. */
export type Answer =
  | {
      readonly kind: 'object';
      readonly code: 200 | 201 | 202;
      readonly type: ResourceType;
      readonly object: ApiObject;
    }
  | { readonly kind: 'list'; readonly type: ResourceType; readonly page: Page }
  | { readonly kind: 'status'; readonly status: Status }
  | {
      readonly kind: 'watch';
      readonly type: ResourceType;
      readonly timeoutMs: number;
      readonly follow: Follow;
    };

/** An event of a watch, in the version that the client asked for. */
export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: ApiObject }
  | { readonly type: 'BOOKMARK'; readonly revision: number; readonly endsInitialEvents: boolean }
  | { readonly type: 'ERROR'; readonly status: Status };

/** Starts to deliver events and returns a function that stops it; `end` is called when no more events follow. */
export type Follow = (send: (event: WatchEvent) => void, end: () => void) => () => void;

export const objectAnswer = (type: ResourceType, object: ApiObject, code: 200 | 201 | 202 = 200): Answer => ({
  kind: 'object',
  code,
  type,
  object,
});

/** The answer to a deletion that removed the object. */
export function deletedAnswer({ group, resource }: ResourceType, { metadata }: ApiObject): Answer {
  return {
    kind: 'status',
    status: {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: {
        name: metadata.name ?? '',
        ...(group === '' ? {} : { group }),
        kind: resource,
        uid: metadata.uid ?? '',
      },
      code: 200,
    },
  };
}
