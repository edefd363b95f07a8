import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export interface Child<Question extends object, Answer extends { readonly kind: string }> {
  /** One question at a time, so that the next message is its answer. @throws Error when the child ends or has `failed` */
  readonly ask: <Kind extends Answer['kind']>(
    question: Question,
    kind: Kind,
  ) => Promise<Extract<Answer, { kind: Kind }>>;
  /** Resolves when it has ended. */
  readonly stop: () => Promise<void>;
}

/** What any question may be answered with. */
export interface Failure {
  readonly kind: 'failed';
  readonly message: string;
}

const isFailure = (answer: { readonly kind: string }): answer is Failure => answer.kind === 'failed';

interface ChildOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly execArgv?: readonly string[];
  /** `ignore`: to /dev/null. */
  readonly stdout?: 'inherit' | 'ignore';
}

/** A script of this folder in a process of its own, which is started with the same options of node and those in `execArgv`. */
export function startChild<Question extends object, Answer extends { readonly kind: string }>(
  script: string,
  { env, execArgv = [], stdout = 'inherit' }: ChildOptions = {},
): Child<Question, Answer> {
  const child = fork(join(import.meta.dirname, script), {
    execArgv: [...process.execArgv, ...execArgv],
    stdio: ['ignore', stdout, 'inherit', 'ipc'],
    ...(env === undefined ? {} : { env: { ...process.env, ...env } }),
  });
  const exited = once(child, 'exit');
  const failed = exited.then(() => Promise.reject(new Error(`${script} ended`)));
  failed.catch(() => undefined); // it does end, and then nobody may be waiting
  return {
    ask: async <Kind extends Answer['kind']>(question: Question, kind: Kind) => {
      const answered = once(child, 'message');
      child.send(question);
      const [answer] = (await Promise.race([answered, failed])) as [Answer | Failure]; // the script sends nothing else
      if (isFailure(answer)) throw new Error(answer.message);
      if (answer.kind !== kind) throw new Error(`asked for ${kind}, and told of ${answer.kind}`);
      return answer as Extract<Answer, { kind: Kind }>; // just checked
    },
    stop: async () => {
      child.disconnect();
      await exited;
    },
  };
}

/** The other end: answers each question, and ends with the process that asks. */
export function answerQuestions(answer: (question: never) => Promise<{ readonly kind: string }>): void {
  process.on('message', (question) => {
    void answer(question as never) // whoever starts the script sends what it understands
      .catch((error: unknown): Failure => ({
        kind: 'failed',
        message: error instanceof Error ? error.message : String(error),
      }))
      .then((said) => process.send?.(said));
  });
  process.once('disconnect', () => process.exit());
}
