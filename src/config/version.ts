/** That of package.json, which a test compares: the file itself is not beside every build. */
export const VERSION = '0.1.0';
