import { CelError } from '../cel-error.ts';

/** Whether the text can be parsed, from what throws a CelError when it cannot. */
export const succeeds =
  (parse: (text: string) => unknown) =>
  (text: string): boolean => {
    try {
      parse(text);
      return true;
    } catch (error) {
      if (error instanceof CelError) return false;
      throw error;
    }
  };
