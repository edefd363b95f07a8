import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export interface Child<Question extends object, Answer extends { readonly kind: string }> {
  /**
   * Allows one question at a time, so that the next message is its answer.
   * @throws Error when the child exits or its answer is `failed`
   */
  readonly ask: <Kind extends Answer['kind']>(
    question: Question,
    kind: Kind,
  ) => Promise<Extract<Answer, { kind: Kind }>>;
  readonly stop: () => Promise<void>;
}

interface Failure {
  readonly kind: 'failed';
  readonly message: string;
}

const isFailure = (answer: { readonly kind: string }): answer is Failure => answer.kind === 'failed';

interface ChildOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly execArgv?: readonly string[];
  /** `ignore` discards the output. */
  readonly stdout?: 'inherit' | 'ignore';
}

/** Forks a script of this folder. The child gets the Node options of this process and those in `execArgv`. */
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
  failed.catch(() => undefined); // avoids an unhandled rejection when the child exits and no question is pending
  return {
    ask: async <Kind extends Answer['kind']>(question: Question, kind: Kind) => {
      const answered = once(child, 'message');
      child.send(question);
      // The script sends no other messages.
      const [answer] = (await Promise.race([answered, failed])) as [Answer | Failure];
      if (isFailure(answer)) throw new Error(answer.message);
      if (answer.kind !== kind) throw new Error(`expected an answer to ${kind}, received ${answer.kind}`);
      return answer as Extract<Answer, { kind: Kind }>; // just checked
    },
    stop: async () => {
      child.disconnect();
      await exited;
    },
  };
}

/** The child's side: answers each question. Stops and exits when the parent disconnects. */
export function answerQuestions(
  answer: (question: never) => Promise<{ readonly kind: string }>,
  stop: () => Promise<void> = () => Promise.resolve(),
): void {
  process.on('message', (question) => {
    void answer(question as never) // the parent sends only questions that the script understands
      .catch((error: unknown): Failure => ({
        kind: 'failed',
        message: error instanceof Error ? error.message : String(error),
      }))
      .then((said) => process.send?.(said));
  });
  process.once('disconnect', () => {
    void stop().finally(() => process.exit());
  });
}
