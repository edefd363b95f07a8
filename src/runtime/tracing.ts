/** Traces of this process, if the environment enables them. OpenTelemetry is loaded only then. */
import type { Logger } from 'pino';
import { resolveTracing } from '../config/tracing.ts';
import type { RequestLine } from '../kube/api-error.ts';
import type { RequestSpan } from '../kube/rest.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { VERSION } from '../config/version.ts';

/** @throws ConfigError when the environment configures tracing in a way that is invalid or not supported */
export async function openTracing(
  environment: NodeJS.ProcessEnv,
  namespace: string,
  identity: string,
  log: Logger,
): Promise<Tracing | undefined> {
  const config = resolveTracing(environment);
  if (config === undefined) return undefined;
  const { createExport, createTracing } = await import('../tracing/open-telemetry.ts');
  const { host, pathname } = new URL(config.url); // without credentials
  log.info({ collector: `${host}${pathname}`, sampler: config.sampler }, 'sending traces');
  return createTracing(createExport(config, log), config.sampler, {
    'service.name': 'gatehouse',
    'service.version': VERSION,
    'service.instance.id': identity,
    'k8s.namespace.name': namespace,
  });
}

/**
 * Only the path template: a name may come from an object under review.
 * https://opentelemetry.io/docs/specs/semconv/http/http-spans/
 */
export function traceRequests(
  { client }: Pick<Tracing, 'client'>,
  server: string,
): (line: RequestLine) => RequestSpan | undefined {
  const { hostname, port, protocol } = new URL(server);
  const defaultPort = protocol === 'http:' ? 80 : 443;
  const address = { 'server.address': hostname, 'server.port': port === '' ? defaultPort : Number(port) };
  return ({ method, path }) => {
    const template = pathTemplate(path);
    const attributes = { ...address, 'http.request.method': method, 'url.template': template };
    const span = client(`${method} ${template}`, attributes);
    if (span === undefined) return undefined;
    return {
      headers: span.headers,
      end: (code) => {
        if (typeof code === 'string') span.end({}, code);
        else span.end({ 'http.response.status_code': code }, isFailure(code) ? String(code) : undefined);
      },
    };
  };
}

/** 404 is an answer, not a failure. */
const isFailure = (status: number): boolean => status >= 400 && status !== 404;

/** `/api/v1/namespaces/shop/secrets/tls` → `/api/v1/namespaces/{namespace}/secrets/{name}`: limits the span names. */
export function pathTemplate(path: string): string {
  const match = /^(\/api\/[^/]+|\/apis\/[^/]+\/[^/]+)\/(.+)$/.exec(path);
  if (match === null) return path;
  const [, version = '', rest = ''] = match;
  const parts = rest.split('/');
  return [version, ...(isNamespaced(parts) ? ['namespaces', '{namespace}'] : []), ...objectParts(parts)].join(
    '/',
  );
}

/** Namespaces are objects too, and have subresources. */
const isNamespaced = ([first, , third]: readonly string[]): boolean =>
  first === 'namespaces' && third !== undefined && third !== 'status' && third !== 'finalize';

function objectParts(parts: readonly string[]): readonly string[] {
  const [resource = '', name, ...subResource] = isNamespaced(parts) ? parts.slice(2) : parts;
  return name === undefined ? [resource] : [resource, '{name}', ...subResource];
}
