/** What the author's code can do during a pass. */
import { readKindOf, type ReadKind } from '../admission/handlers/compile-handler.ts';
import { selectorOf } from '../admission/handlers/reader.ts';
import { objectIn, parseJson, stringifyJson } from '../json/json.ts';
import { applyObject, removeObject } from './apply.ts';
import { checkedCondition, checkedReason } from './author-condition.ts';
import type { ControllerContext } from './controller.ts';
import { later, WAITING_SECONDS, type PassState } from './pass-state.ts';
import { keyFor, progressOf } from './progress.ts';

/** 30 years: a time that fits into a Date. */
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
    apply: async (object, options) => {
      check();
      return (await applyObject(state, object, options)) as never;
    },
    remove: async (object) => {
      check();
      return await removeObject(state, object);
    },
    get: async (resource, { name, namespace = own }) => {
      const kind = kindOf(resource);
      return (await world.get(kind, { namespace, name }, deadline)) as never;
    },
    list: async (resource, { namespace = own, labelSelector } = {}) =>
      (await world.list(kindOf(resource), namespace, selectorOf(labelSelector), deadline)) as never,
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
    event: (type, reason, message) => {
      check();
      world.event(state.object, type, reason, message);
    },
    signal: deadline,
    log: world.log,
  };
}
