import { placeOf } from '../../machinery/storage/stored.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure, badRequest } from '../../machinery/failure.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { parseFieldSelector, parseLabelSelector } from '../../machinery/selectors/selectors.ts';
import { converted, objectAnswer, storedObject, type Answer, type Api, type Call } from './context.ts';

export async function get(call: Call): Promise<Answer> {
  const { api, request, type } = call;
  refuseFuture(api, request.query.get('resourceVersion'));
  return objectAnswer(type, await converted(api, storedObject(call), type));
}

export async function list(call: Call): Promise<Answer> {
  const { api, info, type } = call;
  const { query } = call.request;
  refuseFuture(api, query.get('resourceVersion'));
  const limit = Number(query.get('limit') ?? 0);
  const continueToken = query.get('continue') ?? '';
  const accepts = acceptsOf(query, type);
  const page = api.storage.list(placeOf(type), {
    ...(info.namespace === '' ? {} : { namespace: info.namespace }),
    ...(limit > 0 ? { limit } : {}),
    ...(continueToken === '' ? {} : { continueToken }),
    ...(isExact(query, limit) ? { revision: revisionOf(query.get('resourceVersion')) } : {}),
    ...(accepts === undefined ? {} : { accepts }),
  });
  return { kind: 'list', type, page: { ...page, items: await api.convert(page.items, type) } };
}

/** Whether the request wants the state at exactly this resourceVersion. For a page, this is implied. */
function isExact(query: URLSearchParams, limit: number): boolean {
  if (revisionOf(query.get('resourceVersion')) === 0) return false;
  const match = query.get('resourceVersionMatch') ?? '';
  return match === 'Exact' || (match === '' && limit > 0);
}

/** Label and field selectors as one predicate; undefined if the query has none. @throws ApiFailure 400 */
export function acceptsOf(
  query: URLSearchParams,
  type: ResourceType,
): ((object: ApiObject) => boolean) | undefined {
  const labels = query.get('labelSelector') ?? '';
  const fields = query.get('fieldSelector') ?? '';
  if (labels === '' && fields === '') return undefined;
  const byLabels = parseLabelSelector(labels);
  const byFields = parseFieldSelector(
    fields,
    {
      'metadata.name': ({ metadata }) => metadata.name ?? '',
      ...(type.namespaced
        ? { 'metadata.namespace': ({ metadata }: ApiObject) => metadata.namespace ?? '' }
        : {}),
      ...type.selectableFields,
    },
    type.custom,
  );
  return (object) => byLabels(object.metadata.labels ?? {}) && byFields(object);
}

/** A resourceVersion as a number; 0 if absent. @throws ApiFailure 400 */
export function revisionOf(text: string | null): number {
  if (text === null || text === '') return 0;
  if (!/^\d+$/.test(text)) {
    throw badRequest(
      `resourceVersion: Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
    );
  }
  return Number(text);
}

function refuseFuture({ storage }: Api, version: string | null): void {
  const wanted = revisionOf(version);
  const current = storage.revision();
  if (wanted <= current) return;
  const message = `Timeout: Too large resource version: ${wanted}, current: ${current}`;
  const causes = [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }];
  throw new ApiFailure(504, 'Timeout', message, { causes, retryAfterSeconds: 1 });
}
