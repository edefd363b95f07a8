import { groupResourceName } from '../json/kube-object.ts';
import type { Attributes, Span, Tracing } from '../tracing/tracing.ts';
import type { PendingReview } from './answer.ts';

export type ServerTracing = Pick<Tracing, 'server' | 'note'>;

/** @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/ */
export const httpAttributes = (route: string): Attributes => ({
  'http.request.method': 'POST',
  'http.route': route,
  'url.scheme': 'https',
});

export function endAnswered(span: Span, status: number, failure?: string): void {
  span.end({ 'http.response.status_code': status }, failure ?? (status >= 500 ? String(status) : undefined));
}

/** User and object name are only in the log, under the same uid: traces may be open to more people. */
export function reviewAttributes({ webhook, entry, request }: PendingReview): Attributes {
  const { uid, operation, resource, subResource, namespace, dryRun } = request;
  const name = groupResourceName(resource);
  return {
    ...httpAttributes(`/${webhook}/:entry`),
    'gatehouse.webhook': webhook,
    'gatehouse.entry': entry,
    'gatehouse.uid': uid,
    'gatehouse.operation': operation,
    'gatehouse.resource': subResource === '' ? name : `${name}/${subResource}`,
    'k8s.namespace.name': namespace,
    'gatehouse.dry_run': dryRun ? true : undefined,
  };
}
