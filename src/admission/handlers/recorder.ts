import type { AuditAnnotations } from '../review/decision.ts';
import { isSimpleName } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import type { HandlerContext, HandlerLog } from './handler.ts';
import { Denial, type DenialOptions } from './errors.ts';

/** The API server keeps only 4 KiB of warnings. */
const MOST_WARNINGS = 64;
const MOST_DENIALS = 16;
/** As in a ValidatingAdmissionPolicy: the API server sets no limit to the annotations of a webhook. */
const MOST_ANNOTATIONS = 20;
const LONGEST_ANNOTATION = 1024;

export interface Recorded {
  readonly denials: readonly Denial[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
}

export interface Recorder extends Pick<HandlerContext<object>, 'deny' | 'warn' | 'audit'> {
  /** Adds a refusal that the handler returned or threw, unless it is known already. */
  readonly add: (denial: Denial) => void;
  /** Returns the notes and ignores later ones. Logs later refusals. */
  readonly close: () => Recorded;
}

export function createRecorder(log: HandlerLog): Recorder {
  const denials = new Set<Denial>();
  const warnings: string[] = [];
  const annotations = new Map<string, string>();
  let omitted = 0;
  let closed = false;

  const add = (denial: Denial) => {
    if (closed)
      log.error('the handler refused after the response; await all work that can refuse', { err: denial });
    else if (denials.size < MOST_DENIALS) denials.add(denial);
  };
  return {
    add,
    deny: (message: string, options?: DenialOptions) => {
      const denial = new Denial(message, options);
      add(denial);
      return denial;
    },
    warn: (text) => {
      if (typeof text !== 'string') throw new TypeError(`warn: ${quote(text)} is not a string`);
      if (!closed && warnings.length < MOST_WARNINGS) warnings.push(text);
    },
    audit: (key, value) => {
      if (typeof key !== 'string' || !isSimpleName(key))
        throw new TypeError(
          `audit: ${quote(key)} is not a valid key; write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends`,
        );
      if (typeof value !== 'string') throw new TypeError(`audit: the value of ${key} is not a string`);
      if (closed) return;
      if (annotations.size < MOST_ANNOTATIONS || annotations.has(key))
        annotations.set(key, shorten(value, LONGEST_ANNOTATION));
      else omitted += 1;
    },
    close: () => {
      if (omitted > 0 && !closed)
        log.warn(`audit: the first ${MOST_ANNOTATIONS} keys are kept; write fewer audit annotations`, {
          omitted,
        });
      closed = true;
      return {
        denials: [...denials],
        warnings: [...warnings],
        auditAnnotations: Object.fromEntries(annotations),
      };
    },
  };
}
