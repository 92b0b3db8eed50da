// Package modelstore finds model files that are on this machine already, in the
// local stores of Ollama and of Hugging Face, by the names they have there. It
// reads those stores and changes nothing in them. Errors name no paths and not what
// was asked for, which may come from the environment; callers say what they may say.
package modelstore
