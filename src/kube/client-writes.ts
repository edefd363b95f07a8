import { isNotFound } from './api-error.ts';
import { callOf } from './client-reads.ts';
import type { ApplyOptions, KubeClient, WriteOptions } from './client.ts';
import { groupResourceName, type KubeObject } from '../json/kube-object.ts';
import { withKind, type NamedRef, type Resource } from './object.ts';
import { resourcePath } from './path.ts';
import { APPLY_PATCH, type Rest } from './rest.ts';

export type KubeWrites = Omit<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;

export function createWrites(rest: Rest): KubeWrites {
  const put = <T extends KubeObject>(
    resource: Resource,
    object: T,
    options: WriteOptions = {},
    subresource?: string,
  ) => {
    const ref = refInside(resource, object);
    const version = object.metadata?.resourceVersion;
    if (version === undefined || version === '') {
      throw new Error(
        `${groupResourceName(resource)} ${ref.name} has no resourceVersion: read it before you replace it, or use apply`,
      );
    }
    return rest.request<T>({
      ...writeOf(options),
      method: 'PUT',
      path: pathOf(resource, ref, subresource),
      body: withKind(resource, object),
    });
  };

  const patch = <T extends KubeObject>(
    contentType: string,
    resource: Resource,
    ref: NamedRef,
    body: unknown,
    options: WriteOptions = {},
    subresource?: string,
  ) =>
    rest.request<T>({
      ...writeOf(options),
      method: 'PATCH',
      path: pathOf(resource, ref, subresource),
      contentType,
      body,
    });

  const apply = <T extends KubeObject>(
    resource: Resource,
    object: KubeObject,
    options: ApplyOptions,
    subresource?: string,
  ) => {
    const request = writeOf(options);
    return rest.request<T>({
      ...request,
      query: { ...request.query, force: options.force },
      method: 'PATCH',
      path: pathOf(resource, refInside(resource, object), subresource),
      contentType: APPLY_PATCH,
      body: withKind(resource, object),
    });
  };

  return {
    create: async (resource, object, options = {}) => {
      const path = resourcePath(resource, { namespace: namespaceInside(resource, object) });
      return rest.request({ ...writeOf(options), method: 'POST', path, body: withKind(resource, object) });
    },
    replace: async (resource, object, options) => put(resource, object, options),
    replaceStatus: async (resource, object, options) => put(resource, object, options, 'status'),
    patchJson: async (resource, ref, operations, options) =>
      patch('application/json-patch+json', resource, ref, operations, options),
    patchMerge: async (resource, ref, body, options) =>
      patch('application/merge-patch+json', resource, ref, body, options),
    patchStatus: async (resource, ref, body, options) =>
      patch('application/merge-patch+json', resource, ref, body, options, 'status'),
    apply: async (resource, object, options) => apply(resource, object, options),
    applyStatus: async (resource, object, options) => apply(resource, object, options, 'status'),
    delete: async (resource, ref, options = {}) => {
      const { preconditions, propagationPolicy, dryRun = false, beforeSend } = options;
      // The API server takes the options from the body or from the query, never from both.
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        preconditions,
        propagationPolicy,
        dryRun: dryRun ? ['All'] : undefined,
      };
      try {
        await rest.request({
          ...callOf(options),
          beforeSend,
          method: 'DELETE',
          path: pathOf(resource, ref),
          body,
        });
        return 'deleted';
      } catch (error) {
        if (isNotFound(error)) return 'absent';
        throw error;
      }
    },
  };
}

function pathOf(resource: Resource, { namespace, name }: NamedRef, subresource?: string): string {
  return resourcePath(resource, { namespace, name, subresource });
}

function namespaceInside(resource: Resource, object: KubeObject): string | undefined {
  const namespace = object.metadata?.namespace;
  if (!resource.namespaced) return undefined;
  if (namespace === undefined || namespace === '') {
    throw new Error(
      `${groupResourceName(resource)} is namespaced: set metadata.namespace of "${object.metadata?.name ?? ''}"`,
    );
  }
  return namespace;
}

function refInside(resource: Resource, object: KubeObject): NamedRef {
  return { namespace: namespaceInside(resource, object), name: object.metadata?.name ?? '' };
}

function writeOf(options: WriteOptions) {
  const { dryRun = false, fieldManager, beforeSend } = options;
  return { ...callOf(options), beforeSend, query: { dryRun: dryRun ? 'All' : undefined, fieldManager } };
}
