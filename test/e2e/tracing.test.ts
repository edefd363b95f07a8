// suite: shared-plane, sandbox: long
/** Traces and exemplars of real processes, as a collector and Prometheus receive them. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';

import { startClusterFor, type Cluster } from '../support/cluster.ts';
import { endpointOf, enforceExamples, webhooksOf } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica, type ReplicaOptions } from '../support/gatehouse.ts';
import { MAIN_OF_SOURCES } from '../support/main-module.ts';
import { entriesOfPolicies, server } from '../support/objects.ts';
import { startCollector, type CollectedSpan, type Collector } from '../support/otlp-collector.ts';
import { eventually, freePort } from '../support/processes.ts';
import { post, reviewOf } from '../support/webhook-client.ts';
import { validatingWebhookConfigurations } from '../../src/kube/well-known.ts';

/** Logs the loaded OpenTelemetry modules to stderr, except the API package, which prom-client also loads. */
const TELL_TALE = `--import=data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  registerHooks({
    resolve: (specifier, context, next) => {
      const found = next(specifier, context);
      if (/@opentelemetry.(?!api.)/.test(found.url)) console.error('LOADED ' + found.url);
      return found;
    },
  });`)}`;
/** A bundle does not load modules that could be counted. */
const TELLS_MODULES = { main: MAIN_OF_SOURCES, nodeArgs: [TELL_TALE] };
/** Exports spans only at the end of the process. */
const NEVER_BY_ITSELF = { OTEL_BSP_SCHEDULE_DELAY: '600000' };

let cluster: Cluster;
let collector: Collector;
let traced: Replica;
/** Path of the validating webhook that governs Servers. */
let validate: string;

beforeAll(async () => {
  const port = await freePort();
  [cluster, collector] = await Promise.all([startClusterFor(port), startCollector()]);
  traced = await startReplica(cluster.plane, {
    name: 'traced',
    port,
    ...TELLS_MODULES,
    settings: { exemplars: 'true' },
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    },
  });
  await traced.whenReady();
  await enforceExamples(cluster);
  const webhooks = await webhooksOf(cluster, validatingWebhookConfigurations);
  validate = entriesOfPolicies({ webhooks })[0]?.clientConfig.service?.path ?? '';
});

afterAll(async () => {
  await traced.program.stop(15_000);
  await collector.close();
  await cluster.stop();
});

async function another(name: string, options: Partial<ReplicaOptions>): Promise<Replica> {
  const replica = await startReplica(cluster.plane, { name, servicePort: traced.port, ...options });
  onTestFinished(() => replica.program.stop(15_000));
  return replica;
}

const review = (datacenter: string, uid = 'review-uid') =>
  reviewOf({ uid, name: 'web-1', namespace: 'shop', object: server('shop', 'web-1', datacenter) });

/** Sends a review like the API server, plus the header of a trace: the API server of these tests does not start traces. */
const ask = async (replica: Replica, body: string, headers: Record<string, string> = {}) =>
  await post(await endpointOf(cluster, replica), `${validate}?timeout=5s`, body, { headers });

const newParent = () => {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-01` } };
};

/** The spans of a trace, once they include the review. */
const spansOf = (traceId: string): Promise<readonly CollectedSpan[]> =>
  eventually(`the spans of ${traceId}`, () => {
    const spans = collector.spans().filter((span) => span.traceId === traceId);
    return spans.some(({ kind }) => kind === 'server') ? spans : undefined;
  });

describe('with a collector', () => {
  test('a review continues the trace of the API server, and its live reads are spans within it', async () => {
    const parent = newParent();
    const answer = await ask(traced, review('nowhere-at-all'), parent.headers);
    expect(answer.body).toContain('"allowed":false');
    const spans = await spansOf(parent.traceId);

    const [span, ...others] = spans.filter(({ kind }) => kind === 'server');
    expect(others).toEqual([]);
    const entry = validate.split('/').at(-1) ?? '';
    expect(span).toMatchObject({
      name: `validate ${entry}`,
      parentSpanId: parent.spanId,
      failed: false,
      resource: {
        'service.name': 'gatehouse',
        'service.instance.id': 'traced',
        'deployment.environment.name': 'test',
      },
    });
    expect(span?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/validate/:entry',
      'http.response.status_code': 200,
      'url.scheme': 'https',
      'gatehouse.webhook': 'validate',
      'gatehouse.entry': entry,
      'gatehouse.uid': 'review-uid',
      'gatehouse.operation': 'CREATE',
      'gatehouse.resource': 'servers.infra.example.com',
      'gatehouse.outcome': 'deny',
      'k8s.namespace.name': 'shop',
    });
    const reads = spans.filter(({ kind }) => kind === 'client');
    expect(reads).toContainEqual(
      expect.objectContaining({
        name: 'GET /apis/infra.example.com/v1/datacenters/{name}',
        parentSpanId: span?.spanId,
        failed: false, // a 404 is an answer, not a failure
        attributes: expect.objectContaining({ 'http.response.status_code': 404 }) as unknown,
      }),
    );
    expect(collector.contentTypes()).toEqual(new Set(['application/x-protobuf']));
  });

  test('spans contain neither the user nor values of the object', async () => {
    const parent = newParent();
    await ask(traced, review('a-secret-place'), parent.headers);
    const said = JSON.stringify(await spansOf(parent.traceId));
    for (const secret of ['jane', 'a-secret-place', 'web-1']) expect(said).not.toContain(secret);
  });

  test('reconciles are separate traces, which include their requests to the API server', async () => {
    const reconcile = await eventually('the reconcile of the policy', () =>
      collector
        .spans()
        .find(
          ({ name, attributes }) =>
            name === 'reconcile policies' && attributes['gatehouse.key'] === 'servers',
        ),
    );
    expect(reconcile).toMatchObject({ kind: 'internal', parentSpanId: '' });
    const within = collector.spans().filter(({ parentSpanId }) => parentSpanId === reconcile.spanId);
    expect(within.map(({ kind, traceId }) => [kind, traceId])).toContainEqual(['client', reconcile.traceId]);
    // Watches and the lease belong to no trace.
    const roots = collector.spans().filter(({ parentSpanId }) => parentSpanId === '');
    expect(roots.filter(({ kind }) => kind === 'client')).toEqual([]);
  });

  test('the admission histogram has trace exemplars for clients that accept OpenMetrics', async () => {
    const parent = newParent();
    await ask(traced, review('fra1'), parent.headers);
    const scrape = async (accept: string) => {
      const address = `http://127.0.0.1:${traced.operationsPort}/metrics`;
      const response = await fetch(address, { headers: { accept } });
      return { type: response.headers.get('content-type'), text: await response.text() };
    };
    const open = await scrape('application/openmetrics-text;version=1.0.0,text/plain;q=0.5');
    expect(open.type).toContain('application/openmetrics-text');
    expect(open.text).toContain(`# {trace_id="${parent.traceId}",span_id="`);
    expect(open.text).toMatch(/\n# EOF\n$/);
    const plain = await scrape('*/*');
    expect(plain.type).toContain('text/plain');
    expect(plain.text).not.toContain('trace_id');
    expect(plain.text).toMatch(/^certwatcher_read_certificate_total [1-9]/m);
    expect(plain.text).toMatch(/^certwatcher_read_certificate_errors_total 0$/m);
  });

  test('the replica sends pending spans when it shuts down', async () => {
    const replica = await another('ending', {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint, ...NEVER_BY_ITSELF },
    });
    await replica.whenReady();
    const parent = newParent();
    await ask(replica, review('fra1'), parent.headers);
    expect(collector.spans().filter(({ traceId }) => traceId === parent.traceId)).toEqual([]);
    await replica.program.stop(15_000);
    expect(collector.spans().filter(({ traceId }) => traceId === parent.traceId)).not.toEqual([]);
  });
});

test('without the variables, no OpenTelemetry module is loaded', async () => {
  expect(readFileSync(traced.program.logFile, 'utf8')).toContain('LOADED ');
  const plain = await another('plain', { ...TELLS_MODULES, env: { OTEL_SERVICE_NAME: 'gatehouse' } });
  await plain.whenReady();
  expect((await ask(plain, review('fra1'), newParent().headers)).status).toBe(200);
  expect(readFileSync(plain.program.logFile, 'utf8')).not.toContain('LOADED ');
});

describe('a collector', () => {
  /** Accepts connections and never answers. */
  async function blackHole(): Promise<string> {
    const sockets = new Set<Socket>();
    const hole = createServer((socket) => sockets.add(socket.on('error', () => undefined)));
    await new Promise<void>((listening) => hole.listen(0, '127.0.0.1', listening));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      hole.close();
    });
    return `http://127.0.0.1:${(hole.address() as AddressInfo).port}`; // it listens on TCP
  }

  test.each([
    ['down', 'that is down', async () => `http://127.0.0.1:${await freePort()}`],
    ['silent', 'that never answers', blackHole],
  ])(
    '(%s) %s delays neither admission nor shutdown, and the log reports it once',
    async (name, _which, start) => {
      const replica = await another(name, {
        env: {
          OTEL_EXPORTER_OTLP_ENDPOINT: await start(),
          OTEL_EXPORTER_OTLP_TIMEOUT: '300',
          OTEL_BSP_SCHEDULE_DELAY: '50',
          OTEL_BSP_MAX_QUEUE_SIZE: '16',
          OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '16',
        },
      });
      await replica.whenReady();
      const told = () =>
        readFileSync(replica.program.logFile, 'utf8').match(/could not send traces/g)?.length ?? 0;
      const began = performance.now();
      for (let count = 0; count < 100; count += 1) {
        const { status, body } = await ask(replica, review('fra1', `uid-${count}`), newParent().headers);
        expect([status, body.includes('"allowed":true')]).toEqual([200, true]);
      }
      expect(performance.now() - began).toBeLessThan(20_000);
      await eventually('the log reports it', () => told() > 0);
      await replica.program.stop(20_000);
      expect(await replica.program.exited).toEqual({ code: 0, signal: null });
      expect(told()).toBe(1);
    },
  );
});
