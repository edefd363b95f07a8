/** Expressions cannot wait for the authorizer of the API server, so they are evaluated again with its answers. */
import { CelCostError, CelUnansweredError } from '../../../cel/cel-error.ts';
import type { CelDecision, CelQuestion } from '../../../cel/library/authorizer.ts';
import type { UserInfo } from '../../review/request.ts';
import type { AccessAnswers } from '../world.ts';

export type Authorizations = ReturnType<typeof createAuthorizations>;

/** The different questions that the expressions of one request may ask. */
export const MOST_QUESTIONS = 20;

export function createAuthorizations(user: UserInfo, access: AccessAnswers) {
  const answers = new Map<string, CelDecision>();
  const asked = new Map<string, Promise<CelDecision>>();

  const ask = async (key: string, question: CelQuestion, signal: AbortSignal): Promise<void> => {
    const answer = asked.get(key) ?? access.ask(user, question, signal);
    asked.set(key, answer);
    answers.set(key, await answer);
  };

  return {
    /** @param from `store`: answers of the last seconds count; `api`: only those that this request has asked for */
    begin: (from: 'store' | 'api') => {
      const waiting = new Map<string, CelQuestion>();
      let fromCache = false;
      return {
        /** @throws CelUnansweredError */
        authorize: (question: CelQuestion): CelDecision => {
          const key = JSON.stringify(question);
          const answer = answers.get(key);
          if (answer !== undefined) return answer;
          const known = from === 'store' ? access.known(user, question) : undefined;
          if (known !== undefined) {
            fromCache = true;
            return known;
          }
          if (asked.size + waiting.size >= MOST_QUESTIONS && !asked.has(key) && !waiting.has(key))
            throw new CelCostError(
              `the expressions for one request may ask the authorizer ${MOST_QUESTIONS} different questions`,
            );
          waiting.set(key, question);
          throw new CelUnansweredError();
        },
        isWaiting: () => waiting.size > 0,
        fromCache: () => fromCache,
        /** @throws if the API server gives no answer */
        answer: async (signal: AbortSignal): Promise<void> => {
          const questions = [...waiting];
          waiting.clear();
          await Promise.all(questions.map(([key, question]) => ask(key, question, signal)));
        },
      };
    },
  };
}
