/** What the author's code can do during a pass. */
import { createHash } from 'node:crypto';
import { readKindOf, type ReadKind } from '../admission/handlers/compile-handler.ts';
import { selectorOf } from '../admission/handlers/reader.ts';
import { objectIn, parseJson, stringifyJson, textIn } from '../json/json.ts';
import { applyObject, keepObject, removeObject } from './apply.ts';
import type {
  ApplyOptions,
  ControllerContext,
  ListOptions,
  OwnMetric,
  Progress,
  ProgressRecord,
  ReadOptions,
} from './controller.ts';
import type { MetricWrite } from '../api/own-metric.ts';
import { later, WAITING_SECONDS, type PassState } from './pass-state.ts';
import type { AuthorCondition } from './status.ts';
import { groupResourceName, toTimestamp, type KubeObject } from '../json/kube-object.ts';
import type { CompiledController } from './compile-controller.ts';

const LONGEST_SECONDS = 1e9;

export function createContext(state: PassState): ControllerContext {
  const { pass } = state;
  const { controller, world, deadline } = pass;
  /** A promise without `await` must not write after the pass. */
  const check = (): void => {
    if (state.isOver) throw new Error('the pass is over: await all promises in the controller');
    deadline.throwIfAborted();
  };
  const checkStatus = (): void => {
    check();
    if (!controller.writesStatus)
      throw new TypeError(
        `the status of ${controller.watched.resource} is not this controller's: set writesStatus if it is`,
      );
  };
  const kindOf = (resource: string): ReadKind => {
    check();
    const found = readKindOf(controller.reads, resource);
    if (typeof found === 'string') throw new TypeError(found);
    return found;
  };
  const { namespace: own } = state.object.metadata ?? {};
  const requeueAfter = (seconds: number): void => {
    check();
    if (!(seconds > 0 && seconds <= LONGEST_SECONDS))
      throw new TypeError(
        `requeueAfter: ${seconds} is not a number of seconds above 0 and up to ${LONGEST_SECONDS}`,
      );
    const at = later(world, seconds);
    if (state.requeueAt === undefined || at < state.requeueAt) state.requeueAt = at;
  };
  return {
    apply: async (object: object, options?: ApplyOptions) => {
      check();
      return (await applyObject(state, object, options)) as never;
    },
    remove: async (object) => {
      check();
      return await removeObject(state, object);
    },
    keep: (object) => {
      check();
      keepObject(state, object);
    },
    get: async (resource: string, { name, namespace = own }: ReadOptions) => {
      const kind = kindOf(resource);
      return (await world.get(kind, { namespace, name }, deadline)) as never;
    },
    list: async (resource: string, { namespace = own, labelSelector, index = {} }: ListOptions = {}) => {
      const kind = kindOf(resource);
      const values = Object.entries(index);
      checkIndexes(controller, kind, values);
      const query = { namespace, selector: selectorOf(labelSelector), index: values };
      return (await world.list(kind, query, deadline)) as never;
    },
    condition: (type, status, reason, message = '') => {
      checkStatus();
      const condition = checkedCondition({ type, status, reason, message });
      const index = state.conditions.findIndex((one) => one.type === type);
      if (index < 0) state.conditions.push(condition);
      else state.conditions[index] = condition;
    },
    status: (given) => {
      checkStatus();
      // As it is stored: JSON has no `undefined` and no Date.
      const fields = objectIn({ fields: parseJson(stringifyJson(given)) }, 'fields');
      for (const taken of ['conditions', 'observedGeneration', 'progress'])
        if (Object.hasOwn(fields, taken)) throw new TypeError(`status.${taken} belongs to Gatehouse`);
      state.fields = { ...state.fields, ...fields };
    },
    wait: (reason, message, { afterSeconds = WAITING_SECONDS } = {}) => {
      requeueAfter(afterSeconds);
      state.unready = { why: 'Reconciling', ...checkedReason('wait', reason, message) };
    },
    stall: (reason, message) => {
      check();
      state.unready = { why: 'Stalled', ...checkedReason('stall', reason, message) };
    },
    requeueAfter,
    progress: progressOf(state, checkStatus),
    idempotencyKey: (...parts) => keyFor(state.object, ...parts),
    metric: (name) => metricOf(state, name, check),
    event: (type, reason, message) => {
      check();
      if (!controller.leaderOnly)
        throw new TypeError('event: a controller with leaderOnly: false writes nothing, so use log');
      world.event(state.object, type, reason, message);
    },
    now: world.now,
    signal: deadline,
    log: world.log,
  };
}

const VERBS = {
  counter: ['add', 'remove'],
  gauge: ['add', 'set', 'remove'],
  histogram: ['observe', 'remove'],
} as const;

function metricOf({ pass }: PassState, name: string, check: () => void): OwnMetric {
  const { metrics } = pass.controller;
  const definition = Object.hasOwn(metrics, name) ? metrics[name] : undefined;
  if (definition === undefined)
    throw new TypeError(
      `metric ${name}: it is not in metrics, which has ${Object.keys(metrics).join(', ') || 'none'}`,
    );
  const { type, labels: names = [] } = definition;
  const write = (verb: MetricWrite['verb'], value: number, given: Readonly<Record<string, string>> = {}) => {
    check();
    if (!(VERBS[type] as readonly string[]).includes(verb))
      throw new TypeError(`metric ${name}: a ${type} has ${VERBS[type].join(', ')}, not ${verb}`);
    if (!Number.isFinite(value) || (type === 'counter' && value < 0))
      throw new TypeError(`metric ${name}: ${value} is not a number that a ${type} can have`);
    const unknown = Object.keys(given).find((label) => !names.includes(label));
    if (unknown !== undefined)
      throw new TypeError(
        `metric ${name}: ${unknown} is not in labels, which has ${names.join(', ') || 'none'}`,
      );
    const labels = Object.fromEntries(names.map((label) => [label, given[label] ?? '']));
    pass.world.metric({ name, verb, value, labels });
  };
  return {
    add: (value = 1, labels) => write('add', value, labels),
    set: (value, labels) => write('set', value, labels),
    observe: (value, labels) => write('observe', value, labels),
    remove: (labels) => write('remove', 0, labels),
  };
}

function checkIndexes(
  { watched, indexes }: CompiledController,
  kind: ReadKind,
  values: readonly (readonly [string, string])[],
): void {
  for (const [name] of values) {
    if (groupResourceName(kind) !== groupResourceName(watched))
      throw new TypeError(`index: only ${groupResourceName(watched)} have indexes`);
    if (!Object.hasOwn(indexes, name)) throw new TypeError(`index: "${name}" is not in indexes`);
  }
}

const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;
const TYPE = /^([-a-z0-9.]+\/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$/;
const STATUSES = ['True', 'False', 'Unknown'];
const LONGEST = 32_768;

const FRAMEWORK = new Map([
  ['Stalled', 'stall'],
  ['Reconciling', 'wait'],
]);

/** As API servers check `metav1.Condition`. @throws TypeError */
function checkedCondition({ type, status, reason, message }: AuthorCondition): AuthorCondition {
  const what = `condition ${type}`;
  const instead = FRAMEWORK.get(type);
  if (instead !== undefined) throw new TypeError(`${what}: call ${instead} instead`);
  if (typeof type !== 'string' || !TYPE.test(type) || type.length > 316)
    throw new TypeError(`${what}: the type is not a name such as DatabaseReady`);
  if (!STATUSES.includes(status))
    throw new TypeError(`${what}: the status ${JSON.stringify(status)} is not ${STATUSES.join(', ')}`);
  return { type, status, ...checkedReason(what, reason, message) };
}

function checkedReason(what: string, reason: string, message: string) {
  if (typeof reason !== 'string' || !REASON.test(reason) || reason.length > 1_024)
    throw new TypeError(`${what}: the reason ${JSON.stringify(reason)} is not one word such as NotFound`);
  // An empty message would say nothing in `kubectl describe`.
  const text = message === '' ? reason : message;
  return { reason, message: text.slice(0, LONGEST).toWellFormed() };
}

const keyFor = ({ metadata }: KubeObject, ...parts: readonly string[]): string =>
  createHash('sha256')
    .update(JSON.stringify([metadata?.uid, ...parts]))
    .digest('hex')
    .slice(0, 32);

/** Recorded before they start, so that a crash repeats none of them. */
function progressOf(state: PassState, check: () => void): Progress {
  const { world, signal } = state.pass;
  const current = (): ProgressRecord | undefined => {
    if (state.isFinished) return undefined;
    const record = objectIn(state.object, 'status', 'progress');
    return textIn(record, 'id') === '' ? undefined : (record as unknown as ProgressRecord);
  };
  return {
    get current() {
      return current();
    },
    start: async (operation) => {
      check();
      const before = current();
      if (before !== undefined && before.operation !== operation)
        throw new Error(`${before.operation} is not finished: finish it before ${operation}`);
      const { resourceVersion = '' } = state.object.metadata ?? {}; // another one after each write
      const startedAt = before?.startedAt ?? toTimestamp(world.now());
      const record: ProgressRecord = {
        operation,
        id: before?.id ?? keyFor(state.object, operation, world.now().toISOString(), resourceVersion),
        startedAt,
        attempt: (before?.attempt ?? 0) + 1,
      };
      // With the result of the operation before: its record goes with this write.
      const status = { ...state.fields, progress: record };
      state.object = await world.patchStatus(state.kind, state.object, status, signal);
      if (textIn(state.object, 'status', 'progress', 'id') !== record.id)
        throw new Error(
          `the schema of ${state.kind.kind} drops status.progress: add it to its CustomResourceDefinition`,
        );
      state.isFinished = false;
      return record;
    },
    finish: () => {
      check();
      if (current() !== undefined) state.isFinished = true;
    },
  };
}
