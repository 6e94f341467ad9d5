/** Which addresses mail is sent from and to. */

export const control = /\p{Cc}/u;
const address = /^[^\s<>()",;\\@]{1,64}@[^\s<>()",;\\@]{1,255}$/;

/** Whether it is one bare address, which no header reads as more. */
export const isMailAddress = (text: string): boolean => address.test(text) && !control.test(text);
