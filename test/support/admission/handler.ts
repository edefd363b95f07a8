/** Handlers, requests and logs for the tests of this folder. */
import { toAdmissionRequest, type AdmissionRequest } from '../../../src/admission/review/request.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import { callHandler } from '../../../src/admission/handlers/call-handler.ts';
import type { HandlerCall, HandlerOutcome } from '../../../src/admission/handlers/handler-decision.ts';
import { compileHandler, type CompiledHandler } from '../../../src/admission/handlers/compile-handler.ts';
import { defineHandler, type HandlerDefinition } from '../../../src/admission/handlers/handler.ts';
import { worldOf } from '../../../src/admission/handlers/handler-world.ts';

export interface TestServer {
  apiVersion: string;
  kind: string;
  metadata: {
    name?: string;
    namespace: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    [field: string]: unknown;
  };
  spec: { datacenter: string; tier?: string; units?: number; disks?: { name: string; size: number }[] };
  [field: string]: unknown;
}

export const testServer = (spec: object = {}, metadata: object = {}): TestServer => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: { name: 'web', namespace: 'shop', ...metadata },
  spec: { datacenter: 'fra1', ...spec },
});

export const MATCH = {
  apiGroups: ['infra.example.com'],
  apiVersions: ['v1'],
  resources: ['servers'],
  operations: ['CREATE', 'UPDATE', 'DELETE'],
} as const satisfies HandlerDefinition['match'];

export const ENVIRONMENT = { ownNamespace: 'gatehouse-system' };

export function compiled(
  definition: Partial<HandlerDefinition<TestServer>>,
  name = 'servers',
): CompiledHandler {
  const handler = defineHandler<TestServer>({ match: MATCH, ...definition });
  const result = compileHandler(name, handler, ENVIRONMENT);
  if (result.kind === 'rejected') throw new Error(result.problems.join('; '));
  return result.handler;
}

export function requestOf(fields: Record<string, unknown> = {}): AdmissionRequest {
  const names = { group: 'infra.example.com', version: 'v1' };
  return toAdmissionRequest({
    uid: 'a-uid',
    kind: { ...names, kind: 'Server' },
    resource: { ...names, resource: 'servers' },
    namespace: 'shop',
    operation: 'CREATE',
    userInfo: { username: 'jane', groups: ['system:authenticated'] },
    object: testServer(),
    oldObject: null,
    ...fields,
  } as unknown as JsonObject); // test fixtures are JSON
}

export function recordingLog() {
  const lines: { readonly level: string; readonly message: string; readonly fields: object }[] = [];
  const at =
    (level: string) =>
    (message: string, fields: object = {}) =>
      lines.push({ level, message, fields });
  return { lines, log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } };
}

export function call(
  handler: CompiledHandler,
  given: Partial<Omit<HandlerCall, 'handler'>> = {},
): Promise<HandlerOutcome> {
  return callHandler({
    handler,
    phase: handler.mutate === undefined ? 'validate' : 'mutate',
    request: requestOf(),
    world: worldOf({}),
    signal: new AbortController().signal,
    log: recordingLog().log,
    ...given,
  });
}

/** Wraps an action that a handler can take at run time although its types forbid it. */
export const wrongly = (act: (...args: never[]) => unknown) => act as () => undefined;

export function allowed({ decision }: HandlerOutcome) {
  if (decision.kind !== 'allow') throw new Error(`it was not allowed: ${JSON.stringify(decision)}`);
  return decision;
}

export function denied({ decision }: HandlerOutcome) {
  if (decision.kind !== 'deny') throw new Error(`it was not denied: ${JSON.stringify(decision)}`);
  return decision;
}

export function failed(outcome: HandlerOutcome): { readonly reason: string; readonly cause: string } {
  const { failure } = outcome;
  if (failure === undefined) throw new Error(`it did not fail: ${JSON.stringify(outcome.decision)}`);
  return { reason: failure.reason, cause: (failure.cause as Error).message }; // toError created the cause
}
